// The two faces: the picture as it is, and the answer in one of several views.

import { $, make } from "./dom.js";
import { paint } from "./smooth.js";
import { small } from "./words.js";

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
  if (view === "difference") return "red is brighter, blue is darker";
  if (view === "back" && result.reversal) return `asked for the opposite; error ${small(result.reversal.error)}`;
  if (view === "truth" && result.truth) return `drawn anew; the answer errs by ${small(result.truth.error)}`;
  return "";
}

export function viewer(onview) {
  const buttons = Object.fromEntries(VIEWS.map(([view, text]) =>
    [view, make("button", { type: "button", "data-view": view, onclick: () => onview(view) }, text)]));
  $("views").replaceChildren(...Object.values(buttons));
  $("wipe").addEventListener("input", wipe);

  function wipe() {
    $("frame").style.setProperty("--wipe", `${$("wipe").value}%`);
  }

  // Show a state: the picture as it is, and an answer or a preview of it.
  function show({ factual, name, question, view, result, preview, truth, unread }) {
    paint($("before"), factual);
    $("before").setAttribute("aria-label", `${name}, as it is`);
    $("before-text").textContent = name;
    const image = imageOf(view, result) ?? preview ?? factual;
    const slides = view === "slide";
    paint($("after"), image);
    $("after").setAttribute("aria-label", `${TITLES[view]}: ${question}`);
    $("after").classList.toggle("preview", !imageOf(view, result));
    $("after").classList.toggle("map", view === "difference" && Boolean(result?.difference));
    $("over").hidden = $("wipe").hidden = !slides;
    paint($("over"), factual);
    document.body.classList.toggle("sliding", slides);
    for (const tag of $("frame").querySelectorAll(".tag")) tag.hidden = !slides;
    wipe();
    $("after-title").textContent = TITLES[view];
    $("after-text").textContent = result?.image ? caption(view, result) : "";
    for (const [key, button] of Object.entries(buttons)) {
      button.setAttribute("aria-pressed", String(key === view));
      button.hidden = key === "truth" && !truth;
      button.disabled = Boolean(result?.done) && !imageOf(key, result);
    }
    showTrust(result, unread);
  }

  function showTrust(result, unread) {
    const trust = result?.trust;
    $("trust").className = `trust ${trust ? (trust.trusted ? "good" : "doubtful") : "open"}`;
    if (!result?.image) $("trust").textContent = "";
    else if (!trust) $("trust").textContent = result.done ? "This model does not say how far to trust its answers." : "Checking whether to trust this answer …";
    else if (trust.trusted && unread.length) $("trust").textContent = `Nothing speaks against this answer, but the judge does not read ${unread.join(", ")} as asked.`;
    else if (trust.trusted) $("trust").textContent = "Nothing speaks against this answer.";
    else $("trust").textContent = `Do not trust this answer: ${trust.reasons.join("; ")}.`;
  }

  function progress(share) {
    $("progress").hidden = share === null;
    $("progress").value = share ?? 0;
  }
  return { show, progress };
}
