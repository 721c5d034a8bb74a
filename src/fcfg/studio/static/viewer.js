// The two faces: the picture as it is, and the answer in one of several views.

"use strict";

const VIEWS = [
  ["answer", "Answer"], ["slide", "Slide"], ["difference", "Difference"], ["back", "Way back"], ["truth", "Truth"],
];
const TITLES = {
  answer: "What if", slide: "Before and after", difference: "What changes", back: "And back again", truth: "The true answer",
};

// The image of a view; undefined while there is none.
function imageOf(view, result) {
  if (view === "difference") return result?.difference;
  if (view === "back") return result?.reversal?.image;
  if (view === "truth") return result?.truth?.image;
  return result?.image;
}

function caption(view, result) {
  if (view === "difference") return `red is brighter, blue is darker; full colour at ${result.difference_scale}`;
  if (view === "back" && result.reversal) return `asked for the opposite; error ${small(result.reversal.error)}`;
  if (view === "truth" && result.truth) return `drawn anew; the answer errs by ${small(result.truth.error)}`;
  return "";
}

// What is not as asked, then whether to believe an answer; that is certain only when all checks are done.
function answerWords(result) {
  const missed = missedWords(result);
  return [missed && `${missed}.`, trustWords(result, missed)].filter(Boolean).join(" ");
}

function trustWords(result, missed) {
  const trust = result?.trust;
  if (!result?.image) return "";
  if (!trust) return result.done ? "This model does not say how far to trust its answers." : "Checking whether to trust this answer …";
  if (trust.reasons.length) return `Do not trust this answer: ${trust.reasons.join("; ")}.`;
  if (!result.done) return "Checking whether to trust this answer …";
  return [`Nothing ${missed ? "else " : ""}speaks against this answer.`, trust.unchecked].filter(Boolean).join(" ");
}

function viewer(onview) {
  const buttons = Object.fromEntries(VIEWS.map(([view, text]) =>
    [view, make("button", { type: "button", "data-view": view, onclick: () => onview(view) }, text)]));
  $("views").replaceChildren(...Object.values(buttons));
  $("wipe").addEventListener("input", wipe);

  function wipe() {
    $("frame").style.setProperty("--wipe", `${$("wipe").value}%`);
  }

  // Name the slices of a volume, and give its frames their shape.
  function lay(slices) {
    const entries = Object.entries(slices);
    document.body.classList.toggle("volumes", entries.length > 0);
    for (const place of document.querySelectorAll(".slices")) {
      place.hidden = !entries.length;
      place.replaceChildren(...entries.map(([name, width]) => {
        const word = make("span", {}, name);
        word.style.flexGrow = width;
        return word;
      }));
    }
  }

  // Show a state: the picture as it is, and an answer or a preview of it.
  function show({ factual, name, notes, slices, question, view, result, preview, opened, truth }) {
    lay(slices);
    paint($("before"), factual);
    $("before").setAttribute("aria-label", `${name}, as it is`);
    $("before-text").textContent = [name, ...notes].join(" · ");
    const image = imageOf(view, result) ?? preview ?? factual;
    const slides = view === "slide";
    paint($("after"), image);
    const title = TITLES[imageOf(view, result) || slides ? view : "answer"]; // a preview is of the answer
    $("after").setAttribute("aria-label", `${title}: ${question}`);
    $("after").classList.toggle("preview", !imageOf(view, result) && !opened);
    $("after").classList.toggle("map", view === "difference" && Boolean(result?.difference));
    $("over").hidden = $("wipe").hidden = !slides;
    paint($("over"), factual);
    document.body.classList.toggle("sliding", slides);
    for (const tag of $("frame").querySelectorAll(".tag")) tag.hidden = !slides;
    wipe();
    $("after-title").textContent = title;
    const words = slides ? notes.join(" · ") : result?.image ? caption(view, result) : "";
    $("after-text").textContent = opened && !result ? "computed beforehand by this model; now computed here" : words;
    for (const [key, button] of Object.entries(buttons)) {
      button.setAttribute("aria-pressed", String(key === view));
      button.hidden = key === "truth" && !truth;
      button.disabled = Boolean(result?.done) && !imageOf(key, result);
    }
    showTrust(result);
  }

  function showTrust(result) {
    const trust = result?.trust;
    const words = answerWords(result);
    $("trust").className = `trust ${missedWords(result) || trust?.trusted === false ? "doubtful" : result?.done && trust && !trust.unchecked ? "good" : "open"}`;
    if ($("trust").textContent !== words) $("trust").textContent = words;
  }

  function progress(share) {
    $("progress").hidden = share === null;
    $("progress").value = share ?? 0;
  }
  return { show, progress };
}
