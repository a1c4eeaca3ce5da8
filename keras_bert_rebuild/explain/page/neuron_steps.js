// From the vectors of a pair to its attention weight: bars of query, key and product, the running sum, and the three numbers.

const BARS = { width: 344, height: 60, gap: 20 };

function drawBars(canvas, rows) {
  const height = rows.length * (BARS.height + BARS.gap);
  const ctx = context(canvas, BARS.width, height);
  const { positive, negative, soft, ink, line } = palette();
  const cell = BARS.width / neurons.width;
  ctx.font = "11px ui-sans-serif, system-ui, sans-serif";
  rows.forEach(({ label, values, sum }, i) => {
    const top = i * (BARS.height + BARS.gap) + BARS.gap - 4;
    const middle = top + BARS.height / 2;
    const most = Math.max(...values.map(Math.abs), 1e-9);
    ctx.fillStyle = css(soft);
    ctx.textAlign = "left";
    ctx.fillText(label, 0, top - 4);
    ctx.textAlign = "right";
    ctx.fillText(`\u00b1${number(most, 2)}`, BARS.width, top - 4);
    ctx.fillStyle = css(line);
    ctx.fillRect(0, middle - 0.5, BARS.width, 1);
    values.forEach((value, neuron) => {
      const tall = ((BARS.height / 2) * Math.abs(value)) / most;
      const faded = state.neuron !== null && state.neuron !== neuron;
      ctx.fillStyle = css(value < 0 ? negative : positive, faded ? 0.4 : 0.95);
      ctx.fillRect(neuron * cell, value < 0 ? middle : middle - tall, Math.max(cell - 1, 0.8), tall);
    });
    if (!sum) return;
    // The running sum, on its own scale, ends at query · key.
    const sums = [];
    values.reduce((total, value) => (sums.push(total + value), total + value), 0);
    const largest = Math.max(...sums.map(Math.abs), 1e-9);
    ctx.beginPath();
    ctx.moveTo(0, middle);
    sums.forEach((total, neuron) => ctx.lineTo((neuron + 0.5) * cell, middle - ((BARS.height / 2) * total) / largest));
    ctx.strokeStyle = css(ink, 0.75);
    ctx.lineWidth = 1.5;
    ctx.lineJoin = "round";
    ctx.stroke();
  });
}

function neuronSteps() {
  const title = element("h2");
  const canvas = element("canvas", { className: "bars", attributes: { role: "img", "aria-label": "Query, key and their products" } });
  const neuron = element("p", { className: "note pair", text: "\u00a0" });
  const list = element("dl", { className: "steps" });
  const values = {};
  const parts = Math.round(neurons.scale ** 2 / neurons.width);
  const names = [
    ["dot", neurons.terms.length ? "content to content" : "sum of the products"],
    ...neurons.terms.map((text, term) => [`term${term}`, text]),
    ...(neurons.terms.length ? [["sum", "sum of these"]] : []),
    ["score", `divided by \u221a${parts > 1 ? `(${parts}\u00b7${neurons.width})` : neurons.width} = ${number(neurons.scale, 3)}`],
    ["place", "rank among the keys"],
    ["share", "softmax: attention weight"],
  ];
  for (const [name, text] of names) {
    values[name] = element("dd", { attributes: { "data-step": name } });
    list.append(element("dt", { text }), values[name]);
  }
  const own = element("p", { className: "note own" });
  const box = element("aside", { className: "side" }, title, canvas, neuron, list, own);
  canvas.addEventListener("pointermove", (event) => {
    const box_ = canvas.getBoundingClientRect();
    const at = Math.min(Math.max(Math.floor(((event.clientX - box_.left) / box_.width) * neurons.width), 0), neurons.width - 1);
    if (at !== state.neuron) change({ neuron: at });
  });
  canvas.addEventListener("pointerleave", () => change({ neuron: null }));
  const draw = ({ dots, sums, scores, shares }) => {
    const q = vectorAt(neurons.queries, state.query);
    const k = vectorAt(neurons.keys, state.key);
    const products = Array.from(q, (value, i) => value * k[i]);
    title.textContent = `${labels[state.query]} \u2192 ${labels[state.key]}`;
    const rotated = neurons.thetas && neurons.thetas[state.layer] ? ", rotated by its position" : "";
    drawBars(canvas, [
      { label: `query${rotated}`, values: [...q] },
      { label: `key${rotated}`, values: [...k] },
      { label: "query \u00d7 key, and the running sum", values: products, sum: true },
    ]);
    const i = state.neuron;
    neuron.textContent = i === null ? "\u00a0" : `neuron ${i}:  ${number(q[i])} \u00d7 ${number(k[i])} = ${number(products[i])}`;
    const seen = Number.isFinite(scores[state.key]);
    values.dot.textContent = seen ? number(dots[state.key], 3) : "\u2013";
    if (neurons.terms.length) {
      const terms = termsOf(state.query, state.key);
      terms.forEach((term, i) => (values[`term${i}`].textContent = seen ? number(term, 3) : "\u2013"));
      values.sum.textContent = seen ? number(sums[state.key], 3) : "\u2013";
    }
    values.score.textContent = seen ? number(scores[state.key], 3) : "\u2013";
    const rank = seen ? 1 + scores.filter((score) => score > scores[state.key]).length : 0;
    values.place.textContent = seen ? `${rank} of ${scores.filter(Number.isFinite).length}` : state.key < dots.length ? "outside the window" : "masked: a later token";
    values.share.textContent = seen ? number(shares[state.key], 4) : "0";
    values.share.style.color = headColour(state.head);
    const given = number(share(state.layer, state.head, state.query, state.key, neurons.source), 4);
    own.textContent = `Computed here from ${neurons.terms.length ? "queries, keys and terms" : "queries and keys"} in float16. The model\u2019s own weight: ${given}`;
  };
  return { box, draw };
}
