// The questions asked so far, to go back to.

"use strict";

const LONGEST = 40;

function historyList() {
  const entries = [];
  return {
    // Remember an answered question; asked again, it moves to the end.
    add(entry) {
      const before = entries.findIndex((each) => each.key === entry.key);
      if (before >= 0) entries.splice(before, 1);
      entries.push(entry);
      if (entries.length > LONGEST) entries.shift();
    },
    panel(studio, place) {
      const tiles = [...entries].reverse().map((entry) => tile({
        image: entry.image, title: entry.title, note: entry.note, alt: "", chosen: entry.key === studio.key(), onclick: () => studio.go(entry),
      }));
      const words = entries.length ? "What you asked, newest first. The back button of the browser works as well." : "Nothing has been asked yet.";
      place.replaceChildren(make("p", { class: "hint" }, words), make("div", { class: "tiles" }, ...tiles));
    },
  };
}

// Tabs as WAI-ARIA describes them: arrows move between them.
function tabsView(names, onpick) {
  const buttons = names.map(([key, text], index) => make("button", {
    type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "panel", onclick: () => onpick(key),
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (index + step + names.length) % names.length;
      onpick(names[next][0]);
      buttons[next].focus();
    },
  }, text));
  $("tabs").replaceChildren(...buttons);
  return (chosen) => {
    names.forEach(([key], index) => {
      buttons[index].setAttribute("aria-selected", String(key === chosen));
      buttons[index].tabIndex = key === chosen ? 0 : -1;
    });
    $("panel").setAttribute("aria-labelledby", `tab-${chosen}`);
  };
}
