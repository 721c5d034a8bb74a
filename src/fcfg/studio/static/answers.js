// Answers: the events of a question collected in one record, and those of before kept at hand.

"use strict";

const MOST = 200;

function answerStore(api) {
  const known = new Map();
  const key = ({ keep, ...question }) => JSON.stringify(question);

  function merge(result, event) {
    const { type, ...fields } = event;
    if (type === "answer") Object.assign(result, fields);
    else if (["truth", "trust", "reversal", "done"].includes(type)) result[type] = fields;
    return result;
  }

  // Ask; onevent sees the record after every event. A finished answer is not asked for again.
  async function ask(question, { signal, onevent = () => {} } = {}) {
    const name = key(question);
    if (known.has(name)) {
      const result = known.get(name);
      onevent(result, { type: "done" });
      return result;
    }
    const result = {};
    for await (const event of api.answer(question, signal)) onevent(merge(result, event), event);
    known.set(name, result);
    if (known.size > MOST) known.delete(known.keys().next().value);
    return result;
  }
  return { ask, has: (question) => known.has(key(question)) };
}
