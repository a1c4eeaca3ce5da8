// Neuron view: how one head computes attention weights from vectors, for one query and every key.

// The queries, keys and terms of the current source, their width, and how its scores are computed.
let neurons = null;

async function loadNeurons(source) {
  const { suffix } = SOURCES[source];
  const names = [`queries${suffix}`, `keys${suffix}`, `terms${suffix}`];
  const [queries, keys, termScores] = await Promise.all(names.map((name) => (data.arrays[name] ? array(name) : null)));
  return { ...SOURCES[source], source, queries, keys, termScores, width: data.arrays[names[0]].shape[3] };
}

const vectorAt = (vectors, token) => {
  const begin = ((state.layer * HEADS + state.head) * LENGTH + token) * neurons.width;
  return vectors.subarray(begin, begin + neurons.width);
};

// The terms added to query · key for a pair, on the scale of the products: one value per entry of neurons.terms.
const termsOf = (query, key) =>
  neurons.terms.map((_, term) => {
    const begin = ((state.layer * neurons.terms.length + term) * HEADS + state.head) * LENGTH + query;
    return neurons.termScores[begin * LENGTH + key] * neurons.scale;
  });

// What the head computes for a query: products, sums with the terms, score and attention weight for every visible key.
function scoresOf(query) {
  const q = vectorAt(neurons.queries, query);
  const last = neurons.historyOnly ? query + 1 : LENGTH;
  const dots = [];
  for (let key = 0; key < last; key++) {
    const k = vectorAt(neurons.keys, key);
    let dot = 0;
    for (let i = 0; i < neurons.width; i++) dot += q[i] * k[i];
    dots.push(dot);
  }
  const window = neurons.windows[state.layer];
  const sums = dots.map((dot, key) => (neurons.termScores ? termsOf(query, key).reduce((sum, term) => sum + term, dot) : dot));
  const scores = sums.map((sum, key) => (window === null || Math.abs(key - query) <= window ? sum / neurons.scale : -Infinity));
  const top = Math.max(...scores);
  const total = scores.reduce((sum, score) => sum + Math.exp(score - top), 0);
  return { dots, sums, scores, shares: scores.map((score) => Math.exp(score - top) / total) };
}

// A signed value as the colour of a cell, where `most` is the largest value.
function signed(value, most) {
  const { positive, negative } = palette();
  return css(value < 0 ? negative : positive, Math.min(Math.abs(value) / (most || 1), 1) ** 0.7);
}

function drawStrips(canvas, { width, height, scroll, row, query, keys, chosen }) {
  const ctx = context(canvas, width, height);
  const q = vectorAt(neurons.queries, query);
  const visible = keys.map((key, i) => [key, i * row - scroll]).filter(([, y]) => y > -row && y < height);
  let most = 0;
  for (const key of keys) {
    const k = vectorAt(neurons.keys, key);
    for (let i = 0; i < neurons.width; i++) most = Math.max(most, Math.abs(q[i] * k[i]));
  }
  const cell = width / neurons.width;
  for (const [key, y] of visible) {
    const k = vectorAt(neurons.keys, key);
    const inset = key === chosen ? 2 : 4;
    for (let i = 0; i < neurons.width; i++) {
      ctx.fillStyle = signed(q[i] * k[i], most);
      ctx.fillRect(i * cell, y + inset, Math.max(cell - 0.4, 0.6), row - 2 * inset);
    }
  }
}

function numberColumn() {
  const column = element("div", { className: "column numbers" });
  column.setAttribute("aria-hidden", "true"); // the steps next to it describe the selected key
  let built = null;
  let rows = [];
  return {
    column,
    draw: (keys, { sums, scores, shares }) => {
      if (built !== keys) {
        built = keys;
        rows = keys.map((key) => {
          const row = element("div", { className: "row" }, element("span"), element("span"), element("span", { className: "bar" }), element("b"));
          row.dataset.item = key;
          row.children[2].append(element("i", { className: "fill" }));
          return row;
        });
        column.style.setProperty("--row", `${rowHeight(LENGTH)}px`);
        column.replaceChildren(...rows);
      }
      column.style.setProperty("--accent", headColour(state.head));
      keys.forEach((key, i) => {
        const [sum, score, bar, value] = rows[i].children;
        const seen = Number.isFinite(scores[key]);
        sum.textContent = seen ? number(sums[key], 2) : "";
        score.textContent = seen ? number(scores[key], 2) : "";
        bar.firstChild.style.width = seen ? `${100 * shares[key]}%` : "0";
        value.textContent = seen ? number(shares[key], 4) : "";
        rows[i].classList.toggle("looked", key === state.key);
      });
    },
  };
}

function neuronView(panel) {
  return perModel(panel, "Unpacking queries and keys \u2026", async (source, box) => {
    const loaded = await loadNeurons(source);
    neurons = loaded;
    const draw = builtNeuronView(box, loaded);
    return draw;
  });
}

function builtNeuronView(panel, mine) {
  const layer = layerChoice();
  const head = headChoice();
  const queries = tokenColumn("queries", "Query: the token that attends");
  const keys = tokenColumn("keys", "Keys: the tokens attended to");
  const canvas = element("canvas", { className: "sticky", attributes: { role: "img", "aria-label": "Query times key, neuron by neuron" } });
  const strips = element("div", { className: "lines" }, canvas);
  const numbers = numberColumn();
  const stage = element("div", { className: "stage neuronstage" }, queries.column, keys.column, strips, numbers.column);
  const titles = element("div", { className: "titles neurontitles" });
  for (const text of ["Query", "Key", "query \u00d7 key, neuron by neuron", "sum", `\u00f7 ${number(neurons.scale, 2)}`, "softmax"]) {
    titles.append(element("span", { text }));
  }
  const steps = neuronSteps();
  const left = element("div", { className: "left" }, titles, stage);
  panel.append(element("div", { className: "controls" }, layer.group, head.group), element("div", { className: "split wide" }, left, steps.box));

  const choose = (name, column) => {
    const pick = (event) => {
      const token = column.tokenOf(event);
      if (token !== null && state[name] !== token) change({ [name]: token });
    };
    column.column.addEventListener("click", pick);
    column.column.addEventListener("focusin", pick);
    return pick;
  };
  choose("query", queries);
  const pickKey = choose("key", keys);
  keys.column.addEventListener("pointerover", pickKey);
  numbers.column.addEventListener("pointerover", (event) => {
    const row = event.target.closest(".row");
    if (row) change({ key: Number(row.dataset.item) });
  });
  strips.addEventListener("pointermove", (event) => {
    const box = strips.getBoundingClientRect();
    const key = tokens().keys[Math.floor((event.clientY - box.top) / rowHeight(LENGTH))];
    const neuron = Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * neurons.width), 0), neurons.width - 1);
    if (key !== undefined && (key !== state.key || neuron !== state.neuron)) change({ key, neuron });
  });
  const paint = () => {
    const { keys: places } = tokens();
    const row = rowHeight(LENGTH);
    strips.style.height = `${row * places.length}px`;
    if (state.query === null || !stage.clientHeight) return;
    neurons = mine;
    const size = { width: strips.clientWidth, height: Math.min(stage.clientHeight, strips.clientHeight) };
    drawStrips(canvas, { ...size, scroll: stage.scrollTop, row, query: state.query, keys: places, chosen: state.key });
  };
  stage.addEventListener("scroll", paint, { passive: true });
  new ResizeObserver(paint).observe(stage);
  return () => {
    neurons = mine;
    const places = tokens();
    if (state.query === null || state.key === null || !places.queries.includes(state.query) || !places.keys.includes(state.key)) {
      Object.assign(state, strongest());
    }
    for (const [name, column, all] of [["query", queries, places.queries], ["key", keys, places.keys]]) {
      for (const { row, token } of column.fill(all)) {
        row.classList.toggle("looked", token === state[name]);
        row.dataset.current = token === state[name];
        row.setAttribute("aria-selected", token === state[name]);
      }
      column.settle();
    }
    const found = scoresOf(state.query);
    layer.draw();
    head.draw();
    numbers.draw(places.keys, found);
    steps.draw(found);
    paint();
  };
}
