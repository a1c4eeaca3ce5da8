// Lens view: what the language model head would predict at every position after every block.

function lensView(panel) {
  const waiting = element("p", { className: "note", text: "Unpacking probabilities \u2026" });
  panel.append(waiting);
  let draw = () => {};
  const read = SOURCES.map((_, source) => source).filter((source) => SOURCES[source].lens);
  Promise.all(read.map((source) => array(`lens${SOURCES[source].suffix}`))).then((found) => {
    waiting.remove();
    draw = builtLensView(panel, read.map((source, i) => lensOf(source, found[i])));
    change({});
  });
  return () => draw();
}

// The table of one source, and beside it the tokens of the cell that is looked at.
function lensOf(source, chances) {
  const { lens, suffix } = SOURCES[source];
  const { blocks, words, codes } = lens;
  const ranks = data.arrays[`lens${suffix}`].shape[2];
  const chance = (row, token, rank) => chances[(row * LENGTH + token) * ranks + rank];
  const word = (row, token, rank) => shown(words[codes[row][token][rank]]);
  const table = element("table", { className: "lens" });
  const head = element("tr", {}, element("td"), ...everyToken.map((i) => element("th", { scope: "col" }, tokenElement(i))));
  const of = ARE_MODELS ? `, ${"AB"[source]}` : "";
  table.append(element("caption", { text: `The most probable token after every block${of}` }), element("thead", {}, head));
  const body = element("tbody");
  const cells = [];
  // The last block is on top, as in the papers, and the input at the bottom.
  for (let row = blocks.length - 1; row >= 0; row--) {
    const line = element("tr", {}, element("th", { text: seen(blocks[row]), scope: "row" }));
    for (const token of everyToken) {
      const button = element("button", { type: "button", dir: "auto", text: word(row, token, 0) });
      button.dataset.item = `${row} ${token}`;
      button.title = `${number(chance(row, token, 0), 3)}`;
      const look = () => change({ lens: { row, token } });
      button.addEventListener("pointerenter", look);
      button.addEventListener("focus", look);
      button.addEventListener("click", look);
      line.append(element("td", {}, button));
      cells.push({ button, row, token });
    }
    body.append(line);
  }
  table.append(body);
  const settle = roving(body, { columns: () => LENGTH });
  const left = element("div", {}, ...(ARE_MODELS ? [ownTitle(source)] : []), element("div", { className: "scroll" }, table));
  const title = element("h2");
  const about = element("p", { className: "note" });
  const list = element("ol", { className: "shares" });
  const course = element("canvas", { className: "curves", attributes: { role: "img" } });
  const numbers = element("div", { className: "lensnumbers" }, title, about, list, course);
  let drawn = null;
  const draw = ({ row: wanted, token }) => {
    const row = Math.min(wanted, blocks.length - 1);
    for (const { button, row: r, token: t } of cells) {
      const current = r === row && t === token;
      button.dataset.current = current;
      button.classList.toggle("looked", current);
      if (drawn !== isDark()) button.style.setProperty("--tint", css(palette().positive, 0.42 * chance(r, t, 0) ** 0.8));
    }
    drawn = isDark();
    settle();
    title.textContent = ARE_MODELS ? `${"AB"[source]} \u00b7 ${labels[token]}` : labels[token];
    about.textContent = `${seen(blocks[row])}, ${described(token)}`;
    list.style.setProperty("--accent", css(palette().positive));
    list.replaceChildren(...Array.from({ length: ranks }, (_, rank) => {
      const fill = element("i", { className: "fill" });
      fill.style.width = `${100 * chance(row, token, rank)}%`;
      const name = element("span", { className: "token", dir: "auto", text: word(row, token, rank) });
      return element("li", {}, name, element("span", { className: "track" }, fill), element("b", { className: "value", text: number(chance(row, token, rank), 3) }));
    }));
    drawCourse(course, { row, token, chance, rows: blocks.length });
  };
  return { left, numbers, draw, last: blocks.length - 1 };
}

function builtLensView(panel, lenses) {
  const left = element("div", { className: "left lenses" }, ...lenses.map((lens) => lens.left));
  const side = element("aside", { className: "side", attributes: { "aria-label": "Most probable tokens" } }, ...lenses.map((lens) => lens.numbers));
  const note = "Each column is a position, with the last block on top; a stronger colour means a higher probability.";
  panel.append(element("p", { className: "note lensnote", text: note }), element("div", { className: "split" }, left, side));
  return () => {
    if (state.lens === null) state.lens = { row: lenses[0].last, token: Math.max(data.tokens.indexOf("[MASK]"), everyToken.findIndex((i) => !isSpecial(i)), 0) };
    for (const { draw } of lenses) draw(state.lens);
  };
}

// The probability of the top token, block by block.
function drawCourse(canvas, { row, token, chance, rows }) {
  const [width, height, pad] = [300, 90, 8];
  const ctx = context(canvas, width, height);
  const { positive, line, ink } = palette();
  const across = (r) => pad + ((width - 2 * pad) * r) / Math.max(rows - 1, 1);
  const down = (value) => height - pad - (height - 2 * pad) * value;
  ctx.fillStyle = css(line);
  for (const value of [0, 1]) ctx.fillRect(pad, Math.round(down(value)), width - 2 * pad, 1);
  ctx.fillStyle = css(ink, 0.3);
  ctx.fillRect(across(row) - 0.5, pad, 1, height - 2 * pad);
  ctx.strokeStyle = css(positive);
  ctx.lineWidth = 2;
  ctx.beginPath();
  for (let r = 0; r < rows; r++) ctx.lineTo(across(r), down(chance(r, token, 0)));
  ctx.stroke();
  canvas.setAttribute("aria-label", `Probability of the top token by block, from ${number(chance(0, token, 0), 2)} to ${number(chance(rows - 1, token, 0), 2)}`);
}
