// What is chosen; views draw it, controls change it.

// A first look at something that can be read at once: the head that follows a pattern most, resting on delimiters aside.
function firstHead() {
  const { names, scores, named } = data.patterns;
  let best = { layer: 0, head: 0, score: -1 };
  for (let layer = 0; layer < LAYERS; layer++) {
    for (let head = 0; head < HEADS; head++) {
      for (const pattern of named[layer][head]) {
        const score = scores[pattern][layer][head];
        if (names[pattern] !== "delimiter" && names[pattern] !== "same sentence" && score > best.score) best = { layer, head, score };
      }
    }
  }
  return best;
}

const first = firstHead();
const state = {
  tab: "heads",
  layer: first.layer, // place in data.layers
  head: first.head, // the head that neuron view and large map show
  heads: new Set([first.head]), // those whose lines are drawn
  filter: "all",
  pattern: null, // a known pattern whose heads stand out in the model view
  hover: null, // { side: "query" or "key", token }
  pinned: null, // the same, after a click
  cell: null, // { layer, head } under the pointer in the model view
  query: null, // of the neuron view
  key: null,
  neuron: null,
  token: null, // of the embeddings
};

const listeners = [];
const listen = (draw) => listeners.push(draw);
let waiting = false;

// Change some of it; everything that is on show is drawn once in the next frame.
function change(changes) {
  Object.assign(state, changes);
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    for (const draw of listeners) draw();
  });
}

const tokens = () => kept.get(state.filter);
const looked = () => state.hover || state.pinned;

function strongest() {
  // The query whose largest share is largest, special tokens aside: where there is most to see.
  const { queries, keys } = tokens();
  let best = [queries[0] ?? 0, keys[0] ?? 0, -1];
  for (const query of queries) {
    if (isSpecial(query)) continue;
    for (const key of keys) {
      const value = share(state.layer, state.head, query, key);
      if (value > best[2] && !isSpecial(key)) best = [query, key, value];
    }
  }
  return { query: best[0], key: best[1] };
}

function patternsOf(layer, head) {
  return data.patterns.named[layer][head].map((pattern) => ({
    name: data.patterns.names[pattern],
    meaning: data.patterns.meanings[pattern],
    score: data.patterns.scores[pattern][layer][head],
  }));
}
