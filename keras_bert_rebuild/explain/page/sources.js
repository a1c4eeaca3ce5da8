// Which of several sources is drawn: names above models side by side, and the slider over the steps of a run.

// The name of a visible source, as a line above its drawing.
function sourceTitle(place) {
  const letter = element("b", { className: "letter", text: "AB"[place] });
  const name = element("span", { className: "sourcename", dir: "auto" });
  const title = element("h2", { className: "sourcetitle" }, letter, name);
  return {
    title,
    draw: () => {
      const shown_ = shownSources();
      title.hidden = shown_.length < 2;
      if (place < shown_.length) name.textContent = sourceName(shown_[place]);
    },
  };
}

// The letter and name of one of two models, as a line above what is shown of it.
function ownTitle(source) {
  const letter = element("b", { className: "letter", text: "AB"[source] });
  return element("h2", { className: "sourcetitle" }, letter, element("span", { className: "sourcename", dir: "auto", text: sourceName(source) }));
}

// The choice between two models for neurons and embeddings.
function innerChoice() {
  const choices = SOURCES.map((_, source) => ({ value: source, label: `${"AB"[source]} \u00b7 ${sourceName(source)}` }));
  return choice("Model", choices, () => state.inner, (inner) => change({ inner, neuron: null }));
}

function orderChoice() {
  const choices = ORDERS.map(({ id, label, title }) => ({ value: id, label, title }));
  const made = choice("Order", choices, () => currentOrder().id, (order) => change({ order }));
  const buttons = [...made.group.querySelectorAll("button")];
  return {
    group: made.group,
    draw: () => {
      made.group.hidden = ORDERS.length < 2;
      buttons.forEach((button, i) => (button.disabled = choices[i].value === "divergence" && state.held === null));
      made.draw();
    },
  };
}

const PLAY_MS = 700;

function stepBar() {
  const slider = element("input", { type: "range", id: "step", min: "0", max: String(LAST), step: "1" });
  const label = element("label", { text: "Step", htmlFor: "step" });
  const value = element("output", { htmlFor: "step" });
  const play = element("button", { type: "button", className: "quiet play" });
  const hold = element("button", { type: "button", className: "quiet hold" });
  const ticks = element("div", { className: "ticks", attributes: { "aria-hidden": "true" } });
  for (const { step } of SOURCES) ticks.append(element("i", { title: grouped(step) }));
  const rail = element("div", { className: "rail" }, slider, ticks);
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    change({});
  };
  play.addEventListener("click", () => {
    if (timer) {
      stop();
      return;
    }
    if (state.source === LAST) showSource(0);
    timer = setInterval(() => (state.source < LAST ? showSource(state.source + 1) : stop()), PLAY_MS);
    change({});
  });
  slider.addEventListener("input", () => {
    if (timer) stop();
    showSource(Number(slider.value));
  });
  hold.addEventListener("click", () => change(state.held === null ? { held: state.source } : { held: null, picture: "maps" }));
  const bar = element("section", { className: "stepbar", attributes: { "aria-label": "Steps of the training" } }, play, label, rail, value, hold);
  listen(() => {
    const text = grouped(SOURCES[state.source].step);
    slider.value = String(state.source);
    slider.setAttribute("aria-valuetext", `step ${text}`);
    value.textContent = text;
    play.textContent = timer ? "Pause" : "Play";
    hold.textContent = state.held === null ? "Compare with this step" : `Compared with step ${grouped(SOURCES[state.held].step)} \u00d7`;
    hold.setAttribute("aria-pressed", state.held !== null);
  });
  return bar;
}

// A view of one model at a time (neurons, embeddings): built for a model when first shown, with a choice if there are two models.
// `build(source, box)` returns a promise of a function that draws.
function perModel(panel, waitingText, build) {
  const model = ARE_MODELS ? innerChoice() : null;
  if (model) panel.append(element("div", { className: "controls" }, model.group));
  const boxes = new Map();
  return () => {
    const source = innerSource();
    if (model) model.draw();
    if (!boxes.has(source)) {
      const waiting = element("p", { className: "note", text: waitingText });
      const box = element("div", {}, waiting);
      panel.append(box);
      boxes.set(source, { box, draw: () => {} });
      build(source, box).then((draw) => {
        waiting.remove();
        boxes.set(source, { box, draw });
        change({});
      });
    }
    for (const [of, { box }] of boxes) box.hidden = of !== source;
    boxes.get(source).draw();
  };
}
