// Two settings or two models side by side on the same picture.

"use strict";

const ROWS = [
  ["Mean change", (result) => small(result.change)],
  ["Error to the truth", (result) => (result.truth ? small(result.truth.error) : null)],
  ["Error of the way back", (result) => (result.reversal ? small(result.reversal.error) : null)],
  ["Asked", (result) => missedWords(result) || null],
  ["Trust", (result) => (result.trust ? result.trust.reasons.join("; ") || "nothing speaks against it" : null)],
  ["Network rows", (result) => String(result.evaluations)],
];

function card(title, setting, result) {
  const image = result?.image ? portrait(result.image, `${title}: answer`) : make("span", { class: "waiting" });
  const items = result?.image ? ROWS.flatMap(([name, value]) => (value(result) ? [make("dt", {}, name), make("dd", {}, value(result))] : [])) : [];
  return make("figure", { class: "card" }, image, make("figcaption", {}, make("b", {}, title), make("span", { class: "pale" }, setting), make("dl", {}, ...items)));
}

function settingWords(studio, { model, guidance, sampling }) {
  const named = studio.about.models.length > 1 ? `${studio.titleOf(model)}, ` : "";
  return `${named}${shortGuidance(guidance)}, ${sampling ?? "steps as usual"}`;
}

async function comparePanel(studio, place, signal) {
  const { pin } = studio.state;
  const now = studio.setting();
  const button = (text, setting) => make("button", { type: "button", onclick: () => studio.set({ pin: setting }) }, text);
  const others = studio.about.models.filter((each) => each.name !== studio.model().name)
    .map((each) => button(`Compare with ${each.title ?? each.name}`, { model: each.name, guidance: each.defaults[Object.keys(studio.state.do)[0]]?.guidance ?? now.guidance, sampling: null }));
  const rival = studio.rival();
  const bar = make("div", { class: "buttons" }, button(pin ? "Pin the current setting instead" : "Pin the current setting", now), ...others,
    rival ? button(`Compare with ${shortGuidance(rival)}`, { ...now, guidance: rival }) : null,
    pin ? make("button", { type: "button", class: "quiet", onclick: () => studio.set({ pin: null }) }, "Unpin") : null);
  if (!pin) {
    place.replaceChildren(make("p", { class: "hint" }, "Pin a setting, then change weights, rule or model: both answers stay side by side."), bar);
    return;
  }
  const cards = make("div", { class: "cards" });
  place.replaceChildren(bar, cards);
  const render = (pinned) => cards.replaceChildren(
    card("Pinned", settingWords(studio, pin), pinned), card("Now", settingWords(studio, now), studio.result()));
  render(null);
  try {
    await store(studio, pin, signal, render);
  } catch (error) {
    if (error.name !== "AbortError") cards.firstChild.append(make("p", { class: "hint" }, error.message));
  }
}

async function store(studio, pin, signal, render) {
  const question = studio.question({ ...pin, keep: true });
  await studio.store.ask(question, { signal, onevent: (result) => !signal.aborted && render(result) });
}
