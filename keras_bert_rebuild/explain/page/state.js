// The current selection: views draw it, controls change it.

const LAST = SOURCES.length - 1;
const everyHead = Array.from({ length: LAYERS * HEADS }, (_, i) => ({ layer: Math.floor(i / HEADS), head: i % HEADS }));

const state = {
  tab: IS_TRAINING ? "training" : "heads",
  source: LAST, // the current source: the last step, or the second of two models
  held: ARE_MODELS ? 0 : null, // the one to compare with
  inner: 0, // which of two models the neurons and embeddings are of
  layer: 0, // index into data.layers
  head: 0, // the head of the neuron view and the large map
  heads: new Set([0]), // the heads whose lines are drawn
  order: "layer", // order of the heads: by number, divergence or importance
  picture: "maps", // for two sources: "maps" or their "difference"
  filter: "all",
  pattern: null, // a pattern whose heads are highlighted in the model view
  curve: 0, // the pattern whose curves are drawn
  hover: null, // { side: "query" or "key", token }
  pinned: null, // the same, after a click
  cell: null, // { layer, head } under the pointer in the model view
  query: null, // the query of the neuron view
  key: null,
  neuron: null,
  token: null, // the token of the embeddings view
  why: 0, // index of the attribution
  lens: null, // { row, token } of the lens
};

const shownSources = () => (state.held === null ? [state.source] : [state.held, state.source]);
const innerSource = () => (ARE_MODELS ? state.inner : state.source);

function sourceName(source) {
  const { name, step } = SOURCES[source];
  return step === null ? seen(name) : `Step ${grouped(step)}`;
}

// Start with something easy to read: the head that follows a pattern most, not counting attention to delimiters; for two models
// the head in which they differ most.
function firstHead() {
  if (ARE_MODELS) return everyHead.reduce((best, at) => (divergence(at.layer, at.head) > divergence(best.layer, best.head) ? at : best));
  const { names } = data.patterns;
  const { scores, named } = SOURCES[LAST];
  let best = { layer: 0, head: 0, score: -1 };
  for (const { layer, head } of everyHead) {
    for (const pattern of named[layer][head]) {
      const score = scores[pattern][layer][head];
      if (names[pattern] !== "delimiter" && names[pattern] !== "same sentence" && score > best.score) best = { layer, head, score };
    }
  }
  return best.score < 0 && IS_TRAINING ? mostChanged() : best;
}

// The head in which a pattern has grown most since the first step.
function mostChanged() {
  const grown = ({ layer, head }) =>
    Math.max(...data.patterns.names.map((_, pattern) => SOURCES[LAST].scores[pattern][layer][head] - SOURCES[0].scores[pattern][layer][head]));
  return everyHead.reduce((best, at) => (grown(at) > grown(best) ? at : best));
}

function chooseFirstHead() {
  const { layer, head } = firstHead();
  Object.assign(state, { layer, head, heads: new Set([head]) });
}

const listeners = [];
const listen = (draw) => listeners.push(draw);
let waiting = false;

// Change part of it; everything visible is redrawn once in the next frame.
function change(changes) {
  Object.assign(state, changes);
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    for (const draw of listeners) draw();
  });
}

// Show a source once its maps are unpacked; of several requested in quick succession only the last.
let wantedSource = null;
async function showSource(source, changes = {}) {
  wantedSource = source;
  await loadMaps(source);
  if (wantedSource === source) change({ source, ...changes });
}

const tokens = () => kept.get(state.filter);
const looked = () => state.hover || state.pinned;

function strongest() {
  // The query with the largest attention weight, special tokens aside: where there is most to see.
  const { queries, keys } = tokens();
  let best = [queries[0] ?? 0, keys[0] ?? 0, -1];
  for (const query of queries) {
    if (isSpecial(query)) continue;
    for (const key of keys) {
      const value = share(state.layer, state.head, query, key, innerSource());
      if (value > best[2] && !isSpecial(key)) best = [query, key, value];
    }
  }
  return { query: best[0], key: best[1] };
}

function patternsOf(layer, head, source = state.source) {
  const { scores, named } = SOURCES[source];
  return named[layer][head].map((pattern) => ({
    name: data.patterns.names[pattern],
    meaning: data.patterns.meanings[pattern],
    score: scores[pattern][layer][head],
  }));
}

// The orders of heads; `value` is null for the order of their numbers.
const ORDERS = [
  { id: "layer", label: "Number", word: "", title: "Heads by their numbers", value: null },
  ...(ARE_MODELS || IS_TRAINING
    ? [{ id: "divergence", label: "Divergence", word: "divergence", title: "Most different first: Jensen-Shannon divergence in bits", value: divergence }]
    : []),
  ...SOURCES.flatMap(({ importance, suffix }, source) => {
    if (!importance) return [];
    const of = ARE_MODELS ? ` ${"AB"[source]}` : "";
    return [{ id: `importance${suffix}`, label: `Importance${of}`, word: `importance${of}`, title: `Most important${of && ` to${of}`} first`, value: (layer, head) => importance[layer][head] }];
  }),
];

function currentOrder() {
  const order = ORDERS.find(({ id }) => id === state.order);
  return order.id === "divergence" && state.held === null ? ORDERS[0] : order;
}

// The heads sorted by the selected order, largest value first.
function ordered(heads) {
  const { value } = currentOrder();
  return value ? [...heads].sort((a, b) => value(b.layer, b.head) - value(a.layer, a.head)) : heads;
}
