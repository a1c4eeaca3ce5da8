// Assemble the page once the maps are unpacked.

const VIEWS = [
  ...(IS_TRAINING ? [{ id: "training", label: "Training", build: trainingView }] : []),
  { id: "heads", label: "Lines", build: headView },
  { id: "model", label: "All heads", build: modelView },
  ...(SOURCES.some(({ attributions }) => attributions.length) ? [{ id: "why", label: "Why", build: whyView }] : []),
  ...(SOURCES.some(({ lens }) => lens) ? [{ id: "lens", label: "Lens", build: lensView }] : []),
  ...(data.arrays.queries ? [{ id: "neurons", label: "Neurons", build: neuronView }] : []),
  ...(SOURCES[0].embeddings ? [{ id: "embeddings", label: "Embeddings", build: embeddingsView }] : []),
];

// Views that show every token.
const UNFILTERED = ["embeddings", "training", "why", "lens"];

function words() {
  const subtitle = document.getElementById("subtitle");
  [0, ...(hasPair ? [1] : [])].forEach((sentence) => {
    if (hasPair) subtitle.append(element("b", { className: "letter", text: String(sentence + 1) }));
    subtitle.append(element("span", { className: hasPair ? "text" : "text alone", text: sentenceText(sentence), dir: "auto" }));
  });
  const some = (what, numbers, count) =>
    numbers.length === count ? `${count} ${what}` : `${what} ${numbers.join(", ")} of ${count}`;
  const names = (ARE_MODELS ? SOURCES : SOURCES.slice(0, 1)).map(({ name }) => seen(name)).filter((name) => name !== "\u2205");
  const model = names.length ? `${names.join(" and ")} \u00b7 ` : "";
  const chosen = `${some("layers", data.layers, data.layerCount)} \u00b7 ${some("heads", data.heads, data.headCount)}`;
  const pieces = data.ids[0] < 0 ? `${LENGTH} pieces common to both tokenisations` : `${LENGTH} tokens`;
  const neurons = data.arrays.queries || !SOURCES[0].embeddings ? "" : " Neurons are on pages of fewer layers or heads.";
  const precision = `Attention weights v are rounded by at most ${data.offBy.probabilities}.${neurons}`;
  const footer = document.getElementById("footer");
  footer.append(element("span", { text: `${model}${chosen} \u00b7 ${pieces}` }), element("span", { text: precision }));
  document.title = `Attention \u00b7 ${sentenceText(0)}`;
}

async function start() {
  await Promise.all(shownSources().map(loadMaps));
  chooseFirstHead();
  words();
  const filter = filterChoice();
  document.getElementById("filter").replaceWith(filter.group);
  filter.group.id = "filter";
  listen(() => {
    filter.draw();
    filter.group.hidden = UNFILTERED.includes(state.tab) || !hasPair;
  });
  if (IS_TRAINING) document.getElementById("bar").after(stepBar());
  tabs(document.getElementById("tabs"), document.getElementById("main"), VIEWS);
  themeSwitch(document.getElementById("theme"));
  requestAnimationFrame(() => requestAnimationFrame(() => (root.dataset.ready = "yes")));
}

start();
