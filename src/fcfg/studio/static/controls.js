// The question's sliders: values of do, weights of groups, and under "more" rule, solver and steps.

"use strict";

const STEPS = [4, 6, 8, 11, 15, 20, 30, 50, 100];

// Make the elements anew when what they show differs from the state. A slider that is moved says
// beforehand what it shows then, so that it is not lost under the finger.
function rebuilt(place, signature, build) {
  if (place.dataset.signature === signature) return;
  place.dataset.signature = signature;
  place.replaceChildren(...build());
}

function wantedControl(attribute, value, values, onchange) {
  const text = (each) => valueWords(attribute, each);
  const label = `${plain(attribute.name)} would be`;
  if (attribute.kind !== "continuous") {
    const levels = attribute.kind === "binary" ? [0, 1] : attribute.levels;
    const choices = levels.map((level) => [String(level), text(level)]);
    return segments({ label, name: `do-${attribute.name}`, choices, value: String(value), onchange: (key) => onchange(attribute.kind === "binary" ? Number(key) : key) });
  }
  const id = `do-${attribute.name}`;
  if (values) return listSlider({ id, label, values: [...values].sort((a, b) => a - b), value, text, onchange });
  const step = attribute.high - attribute.low >= 20 ? 1 : (attribute.high - attribute.low) / 100;
  return slider({ id, label, min: attribute.low, max: attribute.high, step, value, text, onchange });
}

function wantedView({ model, wanted, choices, onchange }) {
  const targets = model.attributes.filter((each) => each.name in wanted);
  const signature = (values) => JSON.stringify([model.name, targets.map((each) => [each.name, values[each.name]]), choices?.values]);
  const current = { ...wanted };
  rebuilt($("wanted"), signature(wanted), () => targets.map((attribute) =>
    wantedControl(attribute, wanted[attribute.name], choices?.values, (value) => {
      current[attribute.name] = value;
      $("wanted").dataset.signature = signature(current);
      onchange(attribute.name, value);
    })));
}

function groupWords(group, groups, rule) {
  if (rule === "temperature") return ["Temperature", "how much the latents vary; 0 takes their means"];
  if (group === "all") return ["Strength", "how strongly to push; 1 is the plain model"];
  const named = (groups?.[group] ?? []).map(plain).join(", ");
  if (group === "affected") return ["Push what changes", named];
  if (group === "invariant") return ["Hold what stays", named];
  return [`Push ${plain(group)}`, ""];
}

function weightsView({ guidance, groups, choices, onchange }) {
  const { rule, weights } = readGuidance(guidance);
  const known = choices?.guidances.map(readGuidance).filter((each) => each.rule === rule);
  const options = readGuidance(guidance).options;
  const signature = (values) => JSON.stringify([rule, values, options, groups, choices]);
  const current = { ...weights };
  rebuilt($("weights"), signature(weights), () => Object.entries(weights).map(([group, value]) => {
    const [label, hint] = groupWords(group, groups, rule);
    const fields = {
      id: `weight-${group}`, label, hint, value, text: (each) => String(Number(each.toFixed(3))),
      onchange: (each) => {
        current[group] = Number(each.toFixed(4));
        $("weights").dataset.signature = signature(current);
        onchange(writeGuidance({ rule, weights: current, options }));
      },
    };
    if (!known) return slider({ ...fields, ...weightRange(rule) });
    return listSlider({ ...fields, values: [...new Set(known.map((each) => each.weights[group]))].sort((a, b) => a - b) });
  }));
  if (!Object.keys(weights).length) $("weights").replaceChildren(make("p", { class: "hint" }, "This rule has no weight."));
}

function ruleChoices(model, choices) {
  const rules = choices ? [...new Set(choices.guidances.map((text) => readGuidance(text).rule))] : model.rules;
  return rules.map((rule) => [rule, ruleName(rule)]);
}

// A guidance of another rule: one the gallery knows, or one to begin with.
function otherRule(rule, model, guidance, choices) {
  const same = choices?.guidances.filter((text) => readGuidance(text).rule === rule);
  if (same) return same[Math.floor(same.length / 2)];
  return writeGuidance(startRule(rule, model.attributes, "intervention", model.anchor ? anchorOptions(readGuidance(guidance).options) : {}));
}

function optionsView({ studio, model, models, guidance, sampling, seed, choices, smooth, on }) {
  const { rule, weights, options } = readGuidance(guidance);
  const parts = sampling ? readSampling(sampling) : null;
  const by = model.attributes.some((each) => each.name in weights) ? "attribute" : "intervention";
  const signature = JSON.stringify([model.name, rule, by, options, sampling, seed, choices, smooth]);
  rebuilt($("options"), signature, () => {
    const fields = [];
    if (models.length > 1) fields.push(select({ id: "option-model", label: "Model", choices: models.map((each) => [each.name, each.title ?? each.name]), value: model.name, onchange: on.model }));
    if (model.rules.length) fields.push(select({ id: "option-rule", label: "Rule", choices: ruleChoices(model, choices), value: rule, onchange: (key) => on.guidance(otherRule(key, model, guidance, choices)) }));
    if (!choices && isFactored(rule)) {
      fields.push(select({ id: "option-groups", label: "Groups", value: by, choices: [["intervention", "what changes, what stays"], ["attribute", "each attribute"]],
        onchange: (key) => on.guidance(writeGuidance({ ...startRule(rule, model.attributes, key), options })) }));
    }
    if (!choices && model.anchor) {
      const { anchor, drawn_noise: drawn, ...rest } = options;
      const check = (id, checked, label, chosen) => make("label", { class: "check" }, make("input", { type: "checkbox", id, checked,
        onchange: (event) => on.guidance(writeGuidance({ rule, weights, options: { ...anchorOptions(chosen(String(event.target.checked))), ...rest } })) }), label);
      fields.push(check("option-anchor", anchor === "true", "Anchor to the picture", (yes) => ({ anchor: yes })));
      if (anchor === "true") fields.push(check("option-drawn-noise", drawn === "true", "Draw the noise", (yes) => ({ anchor, drawn_noise: yes })));
    }
    if (!choices && parts) {
      const change = (changes) => { const next = { ...parts, ...changes }; on.sampling(`${next.solver} ${next.grid} ${next.steps}`); };
      const named = (list, own) => [...new Set([...list, own])].map((each) => [each, each]);
      fields.push(select({ id: "option-solver", label: "Solver", choices: named(model.solvers, parts.solver), value: parts.solver, onchange: (solver) => change({ solver }) }));
      fields.push(select({ id: "option-grid", label: "Grid", choices: named(model.grids, parts.grid), value: parts.grid, onchange: (grid) => change({ grid }) }));
      const steps = [...new Set([...STEPS, parts.steps])].sort((a, b) => a - b);
      fields.push(select({ id: "option-steps", label: "Steps", choices: steps.map((each) => [String(each), String(each)]), value: String(parts.steps), onchange: (each) => change({ steps: Number(each) }) }));
    }
    if (studio.live) {
      const input = make("input", { type: "number", id: "option-seed", min: 0, step: 1, value: seed, onchange: () => input.checkValidity() && on.seed(Number(input.value)) });
      fields.push(make("div", { class: "field" }, make("label", { for: "option-seed" }, "Seed"), input));
    }
    fields.push(make("label", { class: "check" }, make("input", { type: "checkbox", id: "option-smooth", checked: smooth, onchange: (event) => on.smooth(event.target.checked) }), "Smooth pixels"));
    fields.push(make("button", { type: "button", class: "quiet", id: "reset", onclick: on.reset }, "Back to the defaults"));
    return fields;
  });
}
