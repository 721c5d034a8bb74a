// The pictures to choose from, and pictures of one's own.

"use strict";

function samplesView(onpick) {
  return (samples, chosen) => {
    const list = $("samples");
    if (list.children.length !== samples.length) {
      list.replaceChildren(...samples.map((sample) => make("button",
        { type: "button", class: "thumb", "data-id": sample.id, "aria-label": sample.name, title: sample.name, onclick: () => onpick(sample.id) },
        make("img", { src: sample.image, alt: "" }))));
    }
    for (const button of list.children) button.setAttribute("aria-pressed", String(button.dataset.id === chosen));
  };
}

// Files by the button, by dropping and by pasting.
function listenForFiles(onfile) {
  $("file").addEventListener("change", () => {
    if ($("file").files.length) onfile($("file").files[0]);
    $("file").value = "";
  });
  let depth = 0;
  const show = (on) => $("drop").classList.toggle("on", on);
  addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; show(true); });
  addEventListener("dragleave", () => { depth -= 1; if (depth === 0) show(false); });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    show(false);
    if (event.dataTransfer.files.length) onfile(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) onfile(event.clipboardData.files[0]);
  });
}
