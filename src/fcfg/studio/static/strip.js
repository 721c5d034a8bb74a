// The same question at several strengths.

"use strict";

function stripPanel(studio, place, signal) {
  const guidance = studio.guidance();
  const parts = readGuidance(guidance);
  const group = mainGroup(parts.weights);
  if (!group) {
    place.replaceChildren(make("p", { class: "hint" }, "This rule has no weight to vary. Choose another under More."));
    return;
  }
  const isTemperature = parts.rule === "temperature";
  const choices = studio.choices();
  const known = choices?.guidances.filter((text) => {
    const each = readGuidance(text);
    const others = (weights) => JSON.stringify({ ...weights, [group]: 0 });
    return each.rule === parts.rule && others(each.weights) === others(parts.weights);
  });
  const texts = known ?? stripWeights(parts.rule).map((weight) => writeGuidance({ ...parts, weights: { ...parts.weights, [group]: weight } }));
  const entries = texts.map((text) => ({ text, weight: readGuidance(text).weights[group] }))
    .sort((a, b) => a.weight - b.weight)
    .map(({ text, weight }) => ({
      title: `${isTemperature ? "temperature" : group === "all" ? "strength" : group} ${weight}`, chosen: text === guidance,
      question: studio.question({ guidance: text, reverse: false, trust: false }), onclick: () => studio.set({ guidance: text }),
    }));
  const row = make("div", { class: "tiles" });
  const varied = isTemperature ? "at other temperatures" : "pushed less and more";
  place.replaceChildren(make("p", { class: "hint" }, `The same question, ${varied}. Choose one to look at it closely.`), row);
  tileRow(row, entries, { store: studio.store, signal });
}
