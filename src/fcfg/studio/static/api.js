// What the page asks: a live server, or a table of answers inside the page (static gallery).

"use strict";

class StudioError extends Error {}

const GONE = "The studio does not answer. Is 'fcfg studio' still running on this machine?";

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new StudioError(GONE);
  }
  if (response.ok) return response;
  let text = `The studio answered with status ${response.status}.`;
  try {
    text = (await response.json()).error ?? text;
  } catch { /* not ours: the status has to do */ }
  throw new StudioError(text);
}

const post = (path, body, signal) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new StudioError(GONE);
    }
    if (part.done) break;
    const parts = (rest + part.value).split("\n");
    rest = parts.pop();
    for (const line of parts.filter(Boolean)) yield JSON.parse(line);
  }
}

const visitor = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// The live server.
function liveApi() {
  const own = visitor();
  return {
    live: true,
    about: async () => (await request("/api/model")).json(),
    samples: async () => (await (await request("/api/samples")).json()).samples,
    upload: async (file) => (await request("/api/images", { method: "POST", body: file })).json(),
    act: async (question, signal) => (await post("/api/act", question, signal)).json(),
    async *answer(question, signal) {
      let ended = false;
      for await (const event of lines(await post("/api/answer", { ...question, visitor: own }, signal))) {
        if (event.type === "error") throw new StudioError(event.error);
        if (event.type === "cancelled" && signal?.aborted) throw new DOMException("Another question came.", "AbortError");
        if (event.type === "cancelled") throw new StudioError("The question was cancelled. Try again.");
        ended ||= event.type === "done";
        yield event;
      }
      if (!ended) throw new StudioError(GONE);
    },
  };
}

// A table of answers, made by 'fcfg studio --export': a question is a picture, do and guidance.
function tableApi(table) {
  const usual = table.about.models[0].defaults;
  const key = (image, wanted, guidance) => JSON.stringify([image, wanted, guidance]);
  const entries = new Map(table.answers.map((entry) => [key(entry.image, entry.do, entry.guidance), entry]));
  const find = ({ image, do: wanted, guidance }) => {
    const entry = entries.get(key(image, wanted, guidance ?? usual[Object.keys(wanted)[0]]?.guidance));
    if (entry) return entry;
    throw new StudioError("This gallery has no answer to that question. 'fcfg studio' on your machine has.");
  };
  const refuse = async () => {
    throw new StudioError("This gallery cannot read pictures. 'fcfg studio' on your machine can.");
  };
  return {
    live: false,
    about: async () => table.about,
    samples: async () => table.samples,
    upload: refuse,
    act: async (question) => {
      const target = Object.keys(question.do)[0];
      const answer = find({ ...question, guidance: null }).events.find((event) => event.type === "answer");
      return { attributes: answer.attributes, default: usual[target] };
    },
    async *answer(question) {
      yield* find(question).events;
    },
    // The values and guidances that have answers, for one picture and attribute.
    choices(image, name) {
      const known = table.answers.filter((entry) => entry.image === image && name in entry.do);
      return { values: [...new Set(known.map((entry) => entry.do[name]))], guidances: [...new Set(known.map((entry) => entry.guidance))] };
    },
  };
}
