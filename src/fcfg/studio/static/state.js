// The question as the address of the page holds it.

"use strict";

const pairs = (values) => Object.entries(values).map(([name, value]) => `${encodeURIComponent(name)}:${encodeURIComponent(value)}`).join(",");

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function read(text, attributes) {
  const found = {};
  for (const part of (text ?? "").split(",").filter(Boolean)) {
    const [name, value] = part.split(":").map(decoded);
    const attribute = attributes.find((each) => each.name === name);
    if (!attribute || value === undefined) continue;
    const legal = attribute.kind === "categorical" ? attribute.levels.includes(value) : value !== "" && Number.isFinite(Number(value));
    if (legal) found[name] = attribute.kind === "categorical" ? value : Number(value);
  }
  return found;
}

function emptyState() {
  return { model: null, image: null, is: {}, do: {}, guidance: null, sampling: null, seed: 0, view: null, tab: null, pin: null };
}

// Read the fragment of an address; unknown names are left out, and the server judges the rest.
function readState(fragment, models) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = emptyState();
  const model = models.find((each) => each.name === fields.get("model")) ?? models[0];
  state.model = model === models[0] ? null : model.name;
  for (const name of ["image", "guidance", "sampling", "view", "tab"]) state[name] = fields.get(name);
  state.is = read(fields.get("is"), model.attributes);
  state.do = read(fields.get("do"), model.attributes);
  const seed = Number(fields.get("seed"));
  state.seed = Number.isSafeInteger(seed) && seed > 0 ? seed : 0;
  const [pinned, guidance, sampling] = (fields.get("pin") ?? "").split("|");
  if (guidance) state.pin = { model: pinned || null, guidance, sampling: sampling || null };
  return state;
}

// Write the fragment; what is as usual is left out.
function writeState(state, uploaded) {
  const fields = new URLSearchParams();
  const values = {
    model: state.model, image: uploaded ? null : state.image, is: pairs(state.is), do: pairs(state.do),
    guidance: state.guidance, sampling: state.sampling, seed: state.seed || null, view: state.view, tab: state.tab,
    pin: state.pin && [state.pin.model ?? "", state.pin.guidance, state.pin.sampling ?? ""].join("|"),
  };
  for (const [name, value] of Object.entries(values)) if (value) fields.set(name, value);
  return `#${fields.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%3B", ";").replaceAll("%3D", "=").replaceAll("%7C", "|")}`;
}
