// Rows of small answers, asked one after the other, each of which can be chosen.

"use strict";

function tile({ image, title, note, chosen, onclick, alt }) {
  const picture = image ? portrait(image, alt) : make("span", { class: "waiting" });
  const words = [make("b", {}, title), make("span", { class: "pale" }, note ?? "")];
  return make("button", { type: "button", class: "tile", "aria-pressed": String(Boolean(chosen)), onclick }, picture, ...words);
}

// One line of numbers about an answer.
function facts(result) {
  const parts = [missedWords(result) && "not reached", `changes ${small(result.change)}`].filter(Boolean);
  if (result.truth) parts.push(`errs by ${small(result.truth.error)}`);
  return parts.join(" · ");
}

// Fill a place with tiles for some questions; each question is asked when the one before is done.
async function tileRow(place, entries, { store, signal }) {
  const shown = entries.map((entry) => tile({ ...entry, note: "…", alt: "" }));
  place.replaceChildren(...shown);
  for (const [index, entry] of entries.entries()) {
    let next;
    try {
      const result = await store.ask({ ...entry.question, keep: true }, { signal });
      next = tile({ ...entry, image: result.image, note: facts(result), alt: `Answer with ${entry.title}` });
    } catch (error) {
      if (error.name === "AbortError") return;
      next = tile({ ...entry, note: error.message, alt: "" });
    }
    if (signal.aborted) return;
    const focused = document.activeElement === shown[index];
    shown[index].replaceWith(next);
    if (focused) next.focus();
  }
}
