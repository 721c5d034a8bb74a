// Attributes, values and questions in plain English.

"use strict";

const plain = (name) => name.replaceAll("_", " ");

// A value as people say it: yes and no for a binary attribute, unless its model has other words.
function valueWords(attribute, value) {
  if (attribute.kind === "binary") return (attribute.words ?? ["no", "yes"])[Number(value)];
  if (attribute.kind === "continuous") return number(value, attribute.high - attribute.low);
  return String(value);
}

function number(value, range) {
  return Number(value).toFixed(range >= 20 ? 0 : range >= 2 ? 1 : 2);
}

const joined = (parts) => (parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`);

// "the person were not smiling" by the phrases of the model, else "smiling changed to no".
function phrase(attribute, value) {
  const own = attribute.phrases, words = valueWords(attribute, value);
  if (!own) return `${plain(attribute.name)} changed to ${words}`;
  return typeof own === "string" ? own.replace("{}", words) : own[Number(value)];
}

// "What if the person were not smiling and the person were 60 years old?"
function questionWords(attributes, wanted) {
  const parts = attributes.filter((each) => each.name in wanted).map((each) => phrase(each, wanted[each.name]));
  return parts.length ? `What if ${joined(parts)}?` : "What if nothing were different?";
}

// "do(smiling = 1)"
function notationWords(wanted) {
  const parts = Object.entries(wanted).map(([name, value]) => `${name} = ${value}`);
  return `do(${parts.join(", ")})`;
}

// The value that a click on an attribute asks for: another one than it has.
function otherValue(attribute, value) {
  if (attribute.kind === "binary") return 1 - Number(value);
  if (attribute.kind === "categorical") {
    return attribute.levels[(attribute.levels.indexOf(value) + 1) % attribute.levels.length];
  }
  const { low, high } = attribute, range = high - low;
  const wanted = Number(value) + (Number(value) > (low + high) / 2 ? -0.35 : 0.35) * range;
  return Number(number(Math.min(high, Math.max(low, wanted)), range));
}

// How sure the judge is of a reading, in words.
function sureWords(attribute, reading) {
  if (!reading) return "";
  if (attribute.kind === "continuous") return `the judge reads ${valueWords(attribute, reading.score)}`;
  return `${reading.sure ? "the judge is sure" : "the judge is not sure"}: ${reading.text}`;
}

// What was asked for and the judge does not read; empty where nothing is known to be missed.
function missedWords(result) {
  const parts = Object.entries(result?.not_reached ?? {}).map(([name, words]) => `${plain(name)} ${words}`);
  return parts.length ? `Not reached: ${parts.join("; ")}` : "";
}

// A number of an answer; none if it is not finite.
const small = (value) => (value === null ? "not finite" : value.toFixed(3));
