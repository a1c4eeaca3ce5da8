// Embeddings: the vectors that are added for a token, their norms and angles, before and after the norm.

const BLOCK = 64; // values in a row of a vector's picture
const ARRAYS = ["vectors", "summed", "normalised", "norms", "norms_summed", "norms_normalised", "cosines", "cosines_summed"];

// The arrays of a source, and their description in the data.
async function loadEmbeddings(source) {
  const { suffix, embeddings } = SOURCES[source];
  const values = await Promise.all(ARRAYS.map((name) => array(`${name}${suffix}`)));
  const arrays_ = Object.fromEntries(ARRAYS.map((name, i) => [name, values[i]]));
  return { ...arrays_, ...embeddings, size: data.arrays[`summed${suffix}`].shape[1] };
}

function drawVector(canvas, values) {
  const columns = Math.min(BLOCK, values.length);
  const cell = BARS.width / columns;
  const rows = Math.ceil(values.length / columns);
  const tall = Math.min(cell, 5);
  const ctx = context(canvas, BARS.width, rows * tall);
  // A single outlier among hundreds of values would leave the others white.
  const sorted = Float32Array.from(values, Math.abs).sort();
  const most = sorted[Math.floor(0.98 * (sorted.length - 1))] || sorted[sorted.length - 1];
  values.forEach((value, i) => {
    ctx.fillStyle = signed(value, most);
    ctx.fillRect((i % columns) * cell, Math.floor(i / columns) * tall, cell - 0.5, tall - 0.5);
  });
}

function embeddingsView(panel) {
  return perModel(panel, "Unpacking vectors \u2026", async (source, box) => builtEmbeddingsView(box, await loadEmbeddings(source)));
}

function normTable(found) {
  const table = element("div", { className: "norms", attributes: { role: "listbox", "aria-label": "Tokens" } });
  const most = Math.max(...found.norms, ...found.norms_summed);
  const rows = everyToken.map((i) => {
    const row = element("div", { className: "row", title: described(i) });
    row.setAttribute("role", "option");
    row.dataset.item = i;
    row.append(tokenElement(i));
    for (const text of [data.ids[i], found.segments[i], found.positions[i]]) {
      row.append(element("span", { className: "id", text: String(text) }));
    }
    const bars = element("span", { className: "normbars" });
    found.parts.forEach((_, part) => {
      const bar = element("i", { className: `part part${part}` });
      bar.style.width = `${(100 * found.norms[part * LENGTH + i]) / most}%`;
      bars.append(bar);
    });
    const whole = element("i", { className: "part whole" });
    whole.style.width = `${(100 * found.norms_summed[i]) / most}%`;
    bars.append(whole);
    row.append(bars, element("b", { className: "value", text: number(found.norms_summed[i], 2) }));
    row.append(element("b", { className: "value", text: number(found.norms_normalised[i], 2) }));
    table.append(row);
    return row;
  });
  const settle = roving(table, { onMove: (row) => row.scrollIntoView({ block: "nearest" }) });
  const pick = (event) => {
    const row = event.target.closest(".row");
    if (row && state.token !== Number(row.dataset.item)) change({ token: Number(row.dataset.item) });
  };
  for (const name of ["pointerover", "focusin", "click"]) table.addEventListener(name, pick);
  return {
    table,
    draw: () => {
      rows.forEach((row, i) => {
        row.classList.toggle("looked", i === state.token);
        row.dataset.current = i === state.token;
        row.setAttribute("aria-selected", i === state.token);
      });
      settle();
    },
  };
}

function builtEmbeddingsView(panel, found) {
  const table = normTable(found);
  const titles = element("div", { className: "titles normtitles" });
  const names = ["Token", "id", "segment", "position", `norms of ${found.parts.join(", ")} and their sum`, "sum", "normed"];
  for (const text of names) titles.append(element("span", { text }));
  const stage = element("div", { className: "stage plain" }, table.table);
  const left = element("div", { className: "left" }, titles, stage);

  const title = element("h2");
  const pieces = element("p", { className: "pieces" });
  const box = element("aside", { className: "side" }, title, pieces);
  const pictures = [...found.parts, "sum", "normed"].map((name, i) => {
    const sign = i === 0 ? "" : i < found.parts.length ? "+" : name === "sum" ? "=" : "\u2192";
    const canvas = element("canvas", { attributes: { role: "img", "aria-label": `Vector: ${name}` } });
    const label = element("span", { className: i < found.parts.length ? `swatch part${i}` : "swatch" });
    const norm = element("b", { className: "value" });
    const text = element("span", { text: `${sign} ${name}`.trim() });
    box.append(element("figure", {}, element("figcaption", {}, label, text, norm), canvas));
    return { canvas, norm };
  });
  const cosines = element("table", { className: "cosines" });
  const caption = element("caption", { text: "Cosine similarities: which part dominates the direction of the sum" });
  const top = element("tr", {}, element("td"), ...[...found.parts, "sum"].map((name) => element("th", { text: name, scope: "col" })));
  cosines.append(caption, top);
  const fields = found.parts.map((name) => {
    const row = element("tr", {}, element("th", { text: name, scope: "row" }));
    const made = [...found.parts, "sum"].map(() => element("td"));
    row.append(...made);
    cosines.append(row);
    return made;
  });
  box.append(cosines, element("p", { className: "note", text: `${found.size} values a vector, ${Math.min(BLOCK, found.size)} in a row; each picture has a scale of its own.` }));
  panel.append(element("div", { className: "split wide" }, left, box));

  const count = found.parts.length;
  const rowOf = (values, i) => values.subarray(i * found.size, (i + 1) * found.size);
  let drawn = null;
  return () => {
    if (state.token === null) state.token = Math.max(everyToken.findIndex((i) => !isSpecial(i)), 0);
    table.draw();
    const i = state.token;
    const now = `${i} ${isDark()}`;
    if (now === drawn) return;
    drawn = now;
    title.textContent = `${labels[i]}`;
    pieces.replaceChildren(...found.pieces[i].map((piece) => element("span", { className: "token", text: shown(piece), dir: "auto" })));
    pictures.forEach(({ canvas, norm }, part) => {
      const vectors = part < count ? found.vectors.subarray(part * LENGTH * found.size) : part === count ? found.summed : found.normalised;
      const norms = part < count ? found.norms.subarray(part * LENGTH) : part === count ? found.norms_summed : found.norms_normalised;
      drawVector(canvas, rowOf(vectors, i));
      norm.textContent = number(norms[i], 3);
    });
    fields.forEach((made, a) => {
      made.forEach((field, b) => {
        const value = b < count ? found.cosines[(i * count + a) * count + b] : found.cosines_summed[a * LENGTH + i];
        field.textContent = number(value, 2);
        field.style.backgroundColor = signed(a === b ? 0 : 0.3 * value, 1);
      });
    });
  };
}
