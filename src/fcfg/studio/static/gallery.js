// The same question under every rule.

"use strict";

function galleryPanel(studio, place, signal) {
  const model = studio.model();
  const guidance = studio.guidance();
  const choices = studio.choices();
  const rules = choices ? [...new Set(choices.guidances.map((text) => readGuidance(text).rule))] : model.rules;
  if (!rules.length) {
    place.replaceChildren(make("p", { class: "hint" }, "This model has no rules to choose from."));
    return;
  }
  const entries = rules.map((rule) => {
    const own = readGuidance(guidance).rule === rule;
    const text = own ? guidance : otherRule(rule, model, "none", choices);
    return { title: shortGuidance(text), chosen: own, question: studio.question({ guidance: text, reverse: false, trust: false }), onclick: () => studio.set({ guidance: text }) };
  });
  const row = make("div", { class: "tiles" });
  place.replaceChildren(make("p", { class: "hint" }, "The same question under each rule of guidance, at weights one begins with."), row);
  tileRow(row, entries, { store: studio.store, signal });
}
