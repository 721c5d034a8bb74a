// Guidance and sampling: reading and writing their text forms, and the range of each slider.

"use strict";

const RULE_NAMES = {
  none: "No guidance", contrast: "Contrast", cfg: "CFG", fcfg: "FCFG", "cfg++": "CFG++",
  "fcfg++": "FCFG++", apg: "APG", fapg: "FAPG", fcontrast: "Factored contrast", temperature: "Temperature",
};
// Weights to begin with: those of the paper where it has some.
const FIRST = { contrast: 1.5, cfg: 3, "cfg++": 0.02, apg: 3, temperature: 0.8 };
const INVARIANT = { contrast: 1, cfg: 1.2, "cfg++": 0.008, apg: 1.2 };
const LARGEST = { contrast: 4, cfg: 6, "cfg++": 0.06, apg: 6, temperature: 1 };

const base = (rule) => (rule.startsWith("f") ? rule.slice(1) : rule);
const ruleName = (rule) => RULE_NAMES[rule] ?? rule;
const isFactored = (rule) => rule.startsWith("f");

// "fcfg:affected=3.0,invariant=1.2;anchor=true" → rule, weights by group, options.
function readGuidance(text) {
  const [head, ...rest] = text.split(";");
  const [rule, stated = ""] = head.split(":");
  const pairs = stated.split(",").filter(Boolean).map((pair) => pair.split("="));
  const weights = Object.fromEntries(pairs.map((pair) => (pair.length > 1 ? [pair[0], Number(pair[1])] : ["all", Number(pair[0])])));
  return { rule, weights, options: Object.fromEntries(rest.map((part) => part.split("="))) };
}

const decimal = (value) => (Number.isInteger(value) ? value.toFixed(1) : String(value));

function writeGuidance({ rule, weights, options }) {
  const groups = Object.entries(weights);
  const stated = groups.map(([group, value]) => (group === "all" ? decimal(value) : `${group}=${decimal(value)}`)).join(",");
  return rule + (stated && `:${stated}`) + Object.entries(options).map(([name, value]) => `;${name}=${value}`).join("");
}

// A rule at the weights one begins with; groups are "intervention" or names of attributes.
function startRule(rule, attributes, by = "intervention", options = {}) {
  const first = FIRST[base(rule)] ?? FIRST[rule] ?? 1.5;
  let weights = { all: FIRST[rule] ?? 1.5 };
  if (rule === "none") weights = {};
  else if (isFactored(rule) && by === "attribute") weights = Object.fromEntries(attributes.map((each) => [each.name, first]));
  else if (isFactored(rule)) weights = { affected: first, invariant: INVARIANT[base(rule)] ?? 1 };
  return { rule, weights, options };
}

function weightRange(rule) {
  const max = LARGEST[rule] ?? LARGEST[base(rule)] ?? 4;
  return { min: 0, max, step: max / (max < 1 ? 60 : max <= 1 ? 20 : max * 20) };
}

// Weights of a strip, for the group that pushes towards the question.
function stripWeights(rule) {
  const { max } = weightRange(rule);
  return [0, 0.125, 0.25, 0.5, 0.75, 1].map((share) => Number((share * max).toPrecision(3)));
}

const mainGroup = (weights) => ["all", "affected", ...Object.keys(weights)].find((group) => group in weights);

function shortGuidance(text) {
  const { rule, weights, options } = readGuidance(text);
  const numbers = Object.values(weights).map((value) => String(value)).join(" / ");
  const words = [options.anchor === "true" && "anchored", ruleName(rule), numbers, options.drawn_noise === "true" && "drawn noise"];
  return words.filter(Boolean).join(" ");
}

// The options by which a prediction is anchored, out of all; with drawn noise or without.
function anchorOptions({ anchor, drawn_noise: drawn }) {
  if (anchor !== "true") return {};
  return drawn === "true" ? { anchor, drawn_noise: drawn } : { anchor };
}

// "dpm-2m uniform 11" → its parts.
function readSampling(text) {
  const [solver, grid, steps] = text.split(" ");
  return { solver, grid, steps: Number(steps) };
}
