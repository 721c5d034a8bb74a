// Elements: finding, making and filling them.

"use strict";

const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// An HTML element with attributes, listeners ("onclick") and children.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for SVG.
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A range input with its label and the value in words.
function slider({ id, label, hint, min, max, step, value, text, onchange }) {
  const output = make("output", { for: id }, text(value));
  const input = make("input", {
    type: "range", id, min, max, step, value, "aria-valuetext": text(value),
    "aria-describedby": hint ? `${id}-hint` : null,
    oninput: () => {
      output.textContent = text(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
      onchange(Number(input.value));
    },
  });
  const head = make("div", { class: "slider-head" }, make("label", { for: id }, label), output);
  return make("div", { class: "slider" }, head, input, hint ? make("p", { class: "hint", id: `${id}-hint` }, hint) : null);
}

// A slider over a list of numbers, which need not be evenly spaced.
function listSlider({ values, value, text, onchange, ...rest }) {
  const nearest = values.reduce((best, each, index) =>
    Math.abs(each - value) < Math.abs(values[best] - value) ? index : best, 0);
  return slider({
    ...rest, min: 0, max: values.length - 1, step: 1, value: nearest,
    text: (index) => text(values[index]), onchange: (index) => onchange(values[index]),
  });
}

// Buttons of which one is pressed.
function segments({ label, choices, value, onchange, name }) {
  const buttons = choices.map(([key, text]) =>
    make("label", {}, make("input", { type: "radio", name, value: key, checked: key === value, onchange: () => onchange(key) }), make("span", {}, text)));
  return make("fieldset", { class: "segments" }, make("legend", {}, label), make("div", {}, ...buttons));
}

// A select with its label.
function select({ id, label, choices, value, onchange }) {
  const element = make("select", { id, onchange: () => onchange(element.value) },
    ...choices.map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return make("div", { class: "field" }, make("label", { for: id }, label), element);
}
