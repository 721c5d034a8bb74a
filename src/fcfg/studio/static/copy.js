// Taking an answer along: as Python, as a command, as a picture and as a record.

"use strict";

// Copy a text; without permission, select it so that a key can.
async function copyText(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied.";
  } catch {
    if (element) getSelection().selectAllChildren(element);
    return "Copying is not allowed here; press Ctrl+C.";
  }
}

function code(title, text, announce) {
  const block = make("pre", { tabindex: 0, "aria-label": title }, make("code", {}, text));
  const button = make("button", { type: "button", class: "quiet", onclick: async () => announce(await copyText(text, block)) }, `Copy as ${title}`);
  return make("div", { class: "code" }, make("div", { class: "code-head" }, make("b", {}, title), button), block);
}

function download(name, text, href) {
  return make("a", { class: "button", download: name, href }, text);
}

const asFile = (record) => URL.createObjectURL(new Blob([`${JSON.stringify(record, null, 2)}\n`], { type: "application/json" }));

function codePanel(studio, place, announce) {
  const result = studio.result();
  if (!result?.done) {
    place.replaceChildren(make("p", { class: "hint" }, "The code comes with the finished answer."));
    return;
  }
  const { python, command, record } = result.done;
  place.replaceChildren(
    make("div", { class: "buttons" },
      download("counterfactual.png", "Download the answer (PNG)", result.image),
      download("picture.png", "Download the picture as it is (PNG)", studio.picture().image),
      record ? download("record.json", "Download the record (JSON)", asFile(record)) : null),
    ...(python ? [code("Python", python, announce)] : []), ...(command ? [code("command", command, announce)] : []));
}
