// The causal graph as a drawing: attributes above, the picture that they make below.

"use strict";

const WIDE = 104, HIGH = 52, GAP = 12, LEVEL = 92, SIDE = 72;

// All attributes that an intervention can move: the targets and their descendants.
function affectedBy(graph, targets) {
  const found = new Set(targets);
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const [name, parents] of Object.entries(graph)) if (parents.some((parent) => found.has(parent))) found.add(name);
  }
  return found;
}

function layers(graph) {
  const depth = (name) => Math.max(0, ...graph[name].map((parent) => depth(parent) + 1));
  const rows = [];
  for (const name of Object.keys(graph)) (rows[depth(name)] ??= []).push(name);
  return rows;
}

function arrow(x1, y1, x2, y2) {
  const middle = (y1 + y2) / 2;
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
}

function places(graph) {
  const rows = layers(graph);
  const width = Math.max(3, ...rows.map((row) => row.length)) * (WIDE + GAP) - GAP;
  const found = {};
  rows.forEach((row, level) => row.forEach((name, index) => {
    const room = row.length * (WIDE + GAP) - GAP;
    found[name] = { x: (width - room) / 2 + index * (WIDE + GAP) + WIDE / 2, y: 4 + level * LEVEL };
  }));
  return { found, width, bottom: 4 + rows.length * LEVEL };
}

// Draw the graph of a model once, and return a function that shows a state of it.
function graphView(svg, model, onpick) {
  const { found, width, bottom } = places(model.graph);
  svg.replaceChildren(draw("defs", {}, ...["", " lit"].map((lit) => draw("marker",
    { id: `tip${lit.trim()}`, class: `tip${lit}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    draw("path", { d: "M0 0L8 4L0 8z" })))));
  svg.setAttribute("viewBox", `0 0 ${width} ${bottom + SIDE + 6}`);
  const edges = [];
  const addEdge = (from, x2, y2, kind) => {
    const line = draw("path", { class: kind, d: arrow(found[from].x, found[from].y + HIGH, x2, y2) });
    edges.push({ from, line });
    svg.append(line);
  };
  for (const name of Object.keys(model.graph)) {
    const middle = width / 2 + (found[name].x - width / 2) * 0.12;
    addEdge(name, middle, bottom - 3, "edge makes");
  }
  for (const [name, parents] of Object.entries(model.graph)) {
    for (const parent of parents) addEdge(parent, found[name].x, found[name].y - 4, "edge");
  }
  const picture = draw("image", { x: width / 2 - SIDE / 2, y: bottom, width: SIDE, height: SIDE, "aria-hidden": "true" });
  svg.append(draw("rect", { class: "picture", x: width / 2 - SIDE / 2 - 3, y: bottom - 3, width: SIDE + 6, height: SIDE + 6, rx: 10 }), picture);
  const nodes = Object.fromEntries(model.attributes.map((attribute) => {
    const name = draw("text", { class: "name", y: 21 }, plain(attribute.name));
    const value = draw("text", { class: "value", y: 39 });
    const pick = (event) => onpick(attribute.name, event.shiftKey || event.ctrlKey || event.metaKey);
    const node = draw("g", {
      class: "node", role: "button", tabindex: 0, "data-name": attribute.name,
      transform: `translate(${found[attribute.name].x} ${found[attribute.name].y})`, onclick: pick,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        pick(event);
      },
    }, draw("rect", { x: -WIDE / 2, width: WIDE, height: HIGH, rx: 14 }), name, value);
    svg.append(node);
    return [attribute.name, { node, value, attribute }];
  }));

  return ({ factual, counterfactual, wanted, image }) => {
    const lit = affectedBy(model.graph, Object.keys(wanted));
    for (const [name, { node, value, attribute }] of Object.entries(nodes)) {
      const was = valueWords(attribute, factual[name]);
      const now = valueWords(attribute, counterfactual[name]);
      const kind = name in wanted ? "target" : lit.has(name) ? "affected" : "kept";
      value.textContent = was === now ? was : `${was} → ${now}`;
      node.setAttribute("class", `node ${kind}`);
      node.setAttribute("aria-pressed", String(name in wanted));
      const role = { target: "changed by you", affected: "follows from its causes", kept: "stays" }[kind];
      node.setAttribute("aria-label", `${plain(name)}: ${was === now ? was : `${was}, would be ${now}`}; ${role}. Choose to ask what if it were different.`);
    }
    for (const { from, line } of edges) line.classList.toggle("lit", lit.has(from));
    if (image) picture.setAttribute("href", image);
  };
}
