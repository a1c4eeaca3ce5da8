// Puts the page together once the probabilities are there.

const VIEWS = [
  { id: "heads", label: "Lines", build: headView },
  { id: "model", label: "All heads", build: modelView },
  ...(data.arrays.queries ? [{ id: "neurons", label: "Neurons", build: neuronView }] : []),
  ...(data.embeddings ? [{ id: "embeddings", label: "Embeddings", build: embeddingsView }] : []),
];

function words() {
  const subtitle = document.getElementById("subtitle");
  [0, ...(hasPair ? [1] : [])].forEach((sentence) => {
    if (hasPair) subtitle.append(element("b", { className: "letter", text: "AB"[sentence] }));
    subtitle.append(element("span", { className: hasPair ? "text" : "text alone", text: sentenceText(sentence), dir: "auto" }));
  });
  const some = (what, numbers, count) =>
    numbers.length === count ? `${count} ${what}` : `${what} ${numbers.join(", ")} of ${count}`;
  const model = data.name ? `${shown(data.name).replaceAll("\u2423", " ")} \u00b7 ` : "";
  const chosen = `${some("layers", data.layers, data.layerCount)} \u00b7 ${some("heads", data.heads, data.headCount)}`;
  const precision = `Shares v are rounded by at most ${data.offBy.probabilities}.`;
  const footer = document.getElementById("footer");
  footer.append(element("span", { text: `${model}${chosen} \u00b7 ${LENGTH} tokens` }), element("span", { text: precision }));
  document.title = `Attention \u00b7 ${sentenceText(0)}`;
}

async function start() {
  probabilities = await array("probabilities");
  words();
  const filter = filterChoice();
  document.getElementById("filter").replaceWith(filter.group);
  filter.group.id = "filter";
  listen(() => {
    filter.draw();
    filter.group.hidden = state.tab === "embeddings";
  });
  tabs(document.getElementById("tabs"), document.getElementById("main"), VIEWS);
  themeSwitch(document.getElementById("theme"));
  requestAnimationFrame(() => requestAnimationFrame(() => (root.dataset.ready = "yes")));
}

start();
