// The attributes of the picture: as read by the judge or corrected, and under the question.

"use strict";

function editor(attribute, value, onedit) {
  const label = `${plain(attribute.name)}, as it is`;
  if (attribute.kind === "continuous") {
    const input = make("input", { type: "number", min: attribute.low, max: attribute.high, step: "any", value: Math.round(value * 10) / 10, "aria-label": label,
      onchange: () => input.value !== "" && input.checkValidity() && onedit(attribute.name, Number(input.value)) });
    return input;
  }
  const levels = attribute.kind === "binary" ? [0, 1] : attribute.levels;
  const element = make("select", { "aria-label": label, onchange: () => onedit(attribute.name, attribute.kind === "binary" ? Number(element.value) : element.value) },
    ...levels.map((level) => make("option", { value: level, selected: level === value }, valueWords(attribute, level))));
  return element;
}

// What the judge reads as a share of certainty, or a value.
function judged(attribute, scores, value) {
  const score = scores?.[attribute.name];
  if (score === undefined || score === null) return null;
  if (attribute.kind === "continuous") return { text: valueWords(attribute, score), share: null };
  const share = attribute.kind === "binary" ? (Number(value) === 1 ? score : 1 - score) : score[value] ?? score;
  return { text: `${Math.round(100 * share)} %`, share };
}

const SURE = 0.8; // as the server says

function meter(reading) {
  if (!reading) return make("span", { class: "pale" }, "–");
  const text = make("span", {}, reading.text);
  if (reading.share === null) return text;
  const bar = make("span", { class: reading.share < SURE ? "meter unsure" : "meter", "aria-hidden": "true" });
  bar.style.setProperty("--share", `${100 * reading.share}%`);
  return make("span", { class: "reading" }, bar, text);
}

function attributesView({ model, sample, factual, counterfactual, result, live, onedit }) {
  const editing = $("attributes").contains(document.activeElement) && $("attributes").dataset.factual === JSON.stringify([model.name, factual]);
  if (editing && document.activeElement.matches("input, select") && !result?.done) return; // what one types must not vanish
  $("attributes").dataset.factual = JSON.stringify([model.name, factual]);
  const rows = model.attributes.map((attribute) => {
    const { name } = attribute;
    const was = valueWords(attribute, factual[name]);
    const now = valueWords(attribute, counterfactual[name]);
    const before = judged(attribute, result?.judged?.factual ?? scoresOf(sample), factual[name]);
    const after = judged(attribute, result?.judged?.counterfactual, counterfactual[name]);
    return make("tr", { class: was === now ? "" : "moved" },
      make("th", { scope: "row" }, plain(name)),
      make("td", {}, live ? editor(attribute, factual[name], onedit) : was),
      make("td", { title: sureWords(attribute, sample.readings?.[name]) }, meter(before)),
      make("td", { class: "now" }, now),
      make("td", {}, meter(after)));
  });
  const head = make("tr", {}, ...["attribute", "is", "judge", "would be", "judge"].map((text) => make("th", { scope: "col" }, text)));
  const focused = document.activeElement?.getAttribute?.("aria-label");
  $("attributes").replaceChildren(make("caption", {}, "What the picture is, and would be. The judge is a classifier, and says how sure it is: ", meter({ share: 1, text: "80 % or more" }), ", ", meter({ share: 0.5, text: "less" }), "."), make("thead", {}, head), make("tbody", {}, ...rows));
  if (focused?.endsWith(", as it is")) [...$("attributes").querySelectorAll("input, select")].find((each) => each.getAttribute("aria-label") === focused)?.focus();
}

function scoresOf(sample) {
  return Object.fromEntries(Object.entries(sample.readings ?? {}).map(([name, reading]) => [name, reading.score]));
}
