// The page: one state, asked about whenever it changes, and shown in every part.

"use strict";

const PAUSE = 150; // milliseconds for which a slider has to rest
const PHONE = matchMedia("(max-width: 700px)");
const PHASES = { abduction: "Reading the picture", prediction: "Drawing the answer", reversal: "Going back", trust: "Checking the answer" };
const TABS = [["strip", "Strengths"], ["rules", "Rules"], ["compare", "Compare"], ["history", "History"], ["code", "Code and files"]];
const EARLY = ["strip", "rules"]; // tabs that need the picture of the answer alone
const QUESTION = ["model", "image", "is", "do", "guidance", "sampling", "seed"]; // parts of the state that make the question

async function start() {
  const table = $("table");
  const api = table ? tableApi(JSON.parse(table.textContent)) : liveApi();
  const about = await api.about();
  const samples = await api.samples();
  if (!samples.length && !api.live) throw new StudioError("This gallery is empty.");
  const own = new Set(); // pictures that were uploaded here
  const store = answerStore(api);
  const history = historyList();
  let state = readState(location.hash, about.models);
  let act = null, result = null, preview = null, previewed = null, opened = false, smooth = true;
  let asking = null, exploring = null, timer = 0;

  const model = () => about.models.find((each) => each.name === state.model) ?? about.models[0];
  const sample = () => samples.find((each) => each.id === state.image);
  const factual = () => ({ ...sample().attributes, ...state.is });
  const target = () => Object.keys(state.do)[0];
  const usual = () => act?.default ?? model().defaults[target()] ?? Object.values(model().defaults)[0];
  const guidance = () => state.guidance ?? usual().guidance;
  const sampling = () => state.sampling ?? usual().sampling;
  const groups = () => {
    const affected = affectedBy(model().graph, Object.keys(state.do));
    const names = model().attributes.map((each) => each.name);
    return { affected: names.filter((name) => affected.has(name)), invariant: names.filter((name) => !affected.has(name)) };
  };
  const truth = () => model().truth && !own.has(state.image);
  const view = () => {
    const known = state.view in TITLES && (state.view !== "truth" || truth());
    return known ? state.view : PHONE.matches && !Object.keys(sample()?.slices ?? {}).length ? "slide" : "answer";
  };
  const tab = () => state.tab ?? "strip";
  const choices = () => (api.live ? null : api.choices(state.image, target()));
  const address = () => writeState(state, own.has(state.image));
  // The address of the question alone, whatever one looks at.
  const key = () => writeState({ ...state, view: null, tab: null, pin: null }, false);
  const question = (changes = {}) => ({
    model: model().name, image: state.image, attributes: factual(), do: state.do, guidance: state.guidance, sampling: state.sampling,
    seed: state.seed, reverse: true, trust: true, truth: truth(), ...changes,
  });
  const studio = {
    api, about, store, question, model, guidance, choices, key, set,
    get state() { return state; },
    result: () => result,
    picture: () => sample(),
    setting: () => ({ model: model().name, guidance: guidance(), sampling: sampling() ?? null }),
    titleOf: (name) => { const found = about.models.find((each) => each.name === name); return found?.title ?? name; },
    rival: () => rival(),
    go: (entry) => set(entry.asked),
  };

  // The paper's rule, unless it is the current one or the model has none.
  function rival() {
    const known = choices()?.guidances.map((text) => readGuidance(text).rule) ?? model().rules;
    return known.includes("fcfg") && readGuidance(guidance()).rule !== "fcfg" ? otherRule("fcfg", model(), "none", choices()) : null;
  }

  // Complete a state that an address or a click left open.
  function complete() {
    if (!sample()) {
      state.image = samples[0]?.id ?? null;
      state.is = {};
    }
    if (sample() && !target()) {
      const first = model().attributes[0], { opening } = model();
      state.do = opening?.image === state.image ? opening.do : { [first.name]: other(first) };
    }
  }

  // The value that a click asks for; in a gallery, one that it has an answer to.
  function other(attribute) {
    const value = otherValue(attribute, factual()[attribute.name]);
    const known = api.live ? null : api.choices(state.image, attribute.name).values;
    if (!known || known.includes(value)) return value;
    return typeof value === "number" ? known.reduce((best, each) => (Math.abs(each - value) < Math.abs(best - value) ? each : best)) : known[0];
  }

  function remember(push) {
    if (location.hash !== address() || window.history.state?.image !== state.image) window.history[push ? "pushState" : "replaceState"]({ image: state.image }, "", address());
  }

  // Change the state; a change of the question is asked, after a pause if it comes from a slider.
  function set(changes, { slides = false } = {}) {
    state = { ...state, ...changes };
    clearTimeout(timer);
    remember(!slides);
    if (!Object.keys(changes).some((name) => QUESTION.includes(name))) return show(), explore();
    forget();
    if (slides) {
      asking?.abort();
      timer = setTimeout(ask, PAUSE);
      show();
    } else ask();
  }

  // What was found for another question is not shown with this one.
  function forget() {
    act = result = null;
    opened = false;
  }

  async function ask() {
    clearTimeout(timer);
    complete();
    asking?.abort();
    exploring?.abort();
    const mine = asking = new AbortController();
    forget();
    if (state.image !== previewed) preview = null;
    previewed = state.image;
    fail(null);
    if (!sample()) return show();
    $("panel").classList.add("stale");
    view_.progress(0);
    say("Asking …");
    show();
    try {
      const acted = api.act({ model: model().name, image: state.image, attributes: factual(), do: state.do, seed: state.seed }, mine.signal).then((found) => {
        if (mine.signal.aborted) return;
        act = found;
        show();
      });
      const answered = store.ask(question(), { signal: mine.signal, onevent: (found, event) => {
        if (!mine.signal.aborted) step(found, event);
      } });
      await Promise.all([acted, answered]);
      if (mine.signal.aborted) return;
      finish();
    } catch (error) {
      if (error.name === "AbortError" || mine.signal.aborted) return;
      mine.abort();
      preview = null;
      view_.progress(null);
      say("");
      fail(error);
      show();
    }
  }

  function step(found, event) {
    if (event.type === "queued") say(event.ahead ? `Waiting for ${event.ahead} other questions …` : "Asking …");
    if (event.type === "opening") {
      opened = true;
      preview = event.image;
    }
    if (event.type === "progress") {
      say(`${PHASES[event.phase] ?? event.phase} …`);
      view_.progress(event.share);
      if (event.image && !found.image) preview = event.image;
    }
    if (found.image) {
      const first = !result;
      result = found;
      preview = found.image;
      if (first) explore();
    }
    show();
  }

  function finish() {
    view_.progress(null);
    const seconds = result.seconds === undefined ? "" : `, ${result.seconds.toFixed(1)} s`;
    say(`${shortGuidance(result.guidance)}, ${result.evaluations} network rows${seconds}, mean change ${small(result.change)}`);
    history.add({ key: key(), asked: Object.fromEntries(QUESTION.map((name) => [name, state[name]])), image: result.image, title: questionWords(model().attributes, state.do), note: `${sample().name}, ${shortGuidance(result.guidance)}` });
    show();
    if (!EARLY.includes(tab())) explore();
  }

  const view_ = viewer((name) => set({ view: name }));
  const showSamples = samplesView((id) => { set({ image: id, is: {}, do: keepTargets(id) }); });
  const showTab = tabsView(TABS, (tab) => set({ tab }));
  let showGraph = null, drawn = null;

  // The same attributes changed on another picture, each to another value than it has there.
  function keepTargets(id) {
    state = { ...state, image: id, is: {} };
    return Object.fromEntries(model().attributes.filter((each) => each.name in state.do).map((each) => [each.name, other(each)]));
  }

  function pick(name, together) {
    const attribute = model().attributes.find((each) => each.name === name);
    const several = together && api.live;
    // A gallery has other weights for other attributes.
    const kept = api.live || api.choices(state.image, name).guidances.includes(state.guidance) ? {} : { guidance: null };
    const { [name]: before, ...others } = state.do;
    if (before !== undefined && several && Object.keys(others).length) return set({ do: others });
    if (before !== undefined) return set({ do: { ...state.do, [name]: other(attribute) } });
    return set({ ...kept, do: several ? { ...state.do, [name]: other(attribute) } : { [name]: other(attribute) } });
  }

  function show() {
    const words = questionWords(model().attributes, state.do);
    $("question").textContent = words;
    $("notation").textContent = notationWords(state.do);
    document.title = `${words} – fcfg studio`;
    showSamples(samples, state.image);
    showTab(tab());
    if (!sample()) return;
    if (drawn !== model().name) {
      showGraph = graphView($("graph"), model(), pick);
      drawn = model().name;
    }
    const counterfactual = { ...factual(), ...(result?.attributes ?? act?.attributes), ...state.do };
    view_.show({ factual: sample().image, name: sample().name, notes: sample().notes ?? [], slices: sample().slices ?? {}, question: words, view: view(), result, preview, opened, truth: truth() });
    showGraph({ factual: factual(), counterfactual, wanted: state.do, image: result?.image ?? preview ?? sample().image });
    attributesView({ model: model(), sample: sample(), factual: factual(), counterfactual, result, live: api.live, onedit: (name, value) => set({ is: { ...state.is, [name]: value } }) });
    wantedView({ model: model(), wanted: state.do, choices: choices(), onchange: (name, value) => set({ do: { ...state.do, [name]: value } }, { slides: true }) });
    weightsView({ guidance: guidance(), groups: groups(), choices: choices(), onchange: (text) => set({ guidance: text }, { slides: true }) });
    optionsView({ studio: api, model: model(), models: about.models, guidance: guidance(), sampling: sampling(), seed: state.seed, choices: choices(), smooth, on: {
      model: (name) => set({ model: name === about.models[0].name ? null : name, guidance: null, sampling: null }),
      guidance: (text) => set({ guidance: text }), sampling: (text) => set({ sampling: text }), seed: (seed) => set({ seed }),
      smooth: (on) => {
        smooth = on;
        document.body.classList.toggle("pixels", !on);
        repaint();
      }, reset: () => set({ guidance: null, sampling: null, seed: 0, is: {} }),
    } });
  }

  function explore() {
    exploring?.abort();
    exploring = new AbortController();
    $("panel").classList.remove("stale");
    const place = $("panel"), chosen = tab();
    if (chosen === "history") history.panel(studio, place);
    else if (chosen === "code") codePanel(studio, place, say);
    else if (!(EARLY.includes(chosen) ? result : result?.done)) place.replaceChildren();
    else ({ strip: stripPanel, rules: galleryPanel, compare: comparePanel })[chosen]?.(studio, place, exploring.signal);
  }

  function fail(error) {
    $("error").hidden = !error;
    $("error-text").textContent = error ? (error instanceof StudioError ? error.message : `The page failed: ${error.message}`) : "";
  }

  async function upload(file) {
    say("Reading your picture …");
    try {
      const found = await api.upload(file);
      samples.push(found);
      own.add(found.id);
      set({ image: found.id, is: {}, do: keepTargets(found.id) });
    } catch (error) {
      say("");
      fail(error);
    }
  }

  $("about").textContent = about.models.map((each) => `${each.title ?? each.name}, ${(each.parameters / 1e6).toFixed(1)} M parameters`).join(" · ");
  $("notice").textContent = [...new Set(about.models.map((each) => each.notice).filter(Boolean))].join(" ");
  $("upload").hidden = !api.live;
  $("graph-hint").textContent = api.live ? "Choose an attribute to change it; with Shift, several. What follows from it lights up." : "Choose an attribute to change it. What follows from it lights up.";
  $("retry").addEventListener("click", ask);
  $("dismiss").addEventListener("click", () => fail(null));
  $("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment of the address is the question
    $("faces").focus();
  });
  $("link").addEventListener("click", async () => say(await copyText(location.href)));
  listenForFiles(upload);
  addEventListener("popstate", (event) => {
    state = readState(location.hash, about.models);
    state.image ??= event.state?.image ?? null; // a picture of one's own is not in the address
    ask();
  });
  PHONE.addEventListener("change", show);
  complete();
  remember(false);
  if (!samples.length) say("Drop a picture to begin.");
  await ask();
}

function say(text) {
  if ($("status").textContent !== text) $("status").textContent = text;
}

start().catch((error) => {
  $("error").hidden = false;
  $("error-text").textContent = error instanceof StudioError ? error.message : `The page failed: ${error.message}`;
});
