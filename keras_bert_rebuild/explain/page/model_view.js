// Model view: every layer and head as a small map; one of them large beside it.

function patternChips() {
  const group = element("div", { className: "choice chips", attributes: { role: "group", "aria-label": "Known patterns" } });
  group.append(element("span", { className: "name", text: "Patterns" }));
  const buttons = data.patterns.names.map((name, pattern) => {
    const count = data.patterns.named.flat().filter((found) => found.includes(pattern)).length;
    const title = `${data.patterns.meanings[pattern]}: ${count} head${count === 1 ? "" : "s"}`;
    const button = element("button", { type: "button", title }, name, element("b", { text: String(count) }));
    button.dataset.item = pattern;
    button.disabled = count === 0;
    button.addEventListener("click", () => change({ pattern: state.pattern === pattern ? null : pattern }));
    group.append(button);
    return button;
  });
  const settle = roving(group, { vertical: false });
  return {
    group,
    draw: () => {
      buttons.forEach((button, pattern) => button.setAttribute("aria-pressed", state.pattern === pattern));
      settle();
    },
  };
}

function modelView(panel) {
  const chips = patternChips();
  const grid = element("div", { className: "grid", attributes: { role: "grid", "aria-label": "Heads of all layers" } });
  grid.style.setProperty("--heads", HEADS);
  const top = element("div", { className: "gridrow", attributes: { role: "row" } }, element("span", { className: "corner" }));
  for (const head of data.heads) {
    top.append(element("span", { className: "axis", text: String(head), attributes: { role: "columnheader", "aria-label": `Head ${head}` } }));
  }
  grid.append(top);
  const cells = [];
  data.layers.forEach((number_, layer) => {
    const row = element("div", { className: "gridrow", attributes: { role: "row" } });
    const kind_ = kindsDiffer ? `: ${kindOfLayer(layer)}` : "";
    row.append(element("span", { className: "axis", text: String(number_), title: `Layer ${number_}${kind_}`, attributes: { role: "rowheader", "aria-label": `Layer ${number_}${kind_}` } }));
    data.heads.forEach((headNumber, head) => {
      const picture = element("canvas");
      const found = patternsOf(layer, head);
      const names = found.map(({ name, score }) => `${name} ${number(score, 2)}`).join(", ");
      const cell = element("button", { type: "button", className: "cell" }, picture);
      cell.setAttribute("role", "gridcell");
      cell.setAttribute("aria-label", `Layer ${number_}, head ${headNumber}${names ? `: ${names}` : ""}`);
      cell.dataset.item = `${layer} ${head}`;
      const look = () => change({ cell: { layer, head } });
      cell.addEventListener("pointerenter", look);
      cell.addEventListener("focus", look);
      cell.addEventListener("click", () => change({ tab: "heads", layer, head, heads: new Set([head]), hover: null, pinned: null }));
      row.append(cell);
      cells.push({ cell, picture, layer, head });
    });
    grid.append(row);
  });
  const settle = roving(grid, { columns: () => HEADS });

  const title = element("h3");
  const kind = element("p", { className: "note kind" });
  const large = element("canvas", { className: "large", attributes: { role: "img", "aria-label": "The map of one head, large" } });
  const pair = element("p", { className: "note pair", text: "\u00a0" });
  const patterns = patternList();
  const toHeads = element("button", { type: "button", className: "quiet", text: "Lines" });
  const toNeurons = element("button", { type: "button", className: "quiet", text: "Neurons" });
  const open = (tab) => () => {
    const { layer, head } = about();
    change({ tab, layer, head, heads: new Set([head]), query: null, key: null });
  };
  toHeads.addEventListener("click", open("heads"));
  toNeurons.addEventListener("click", open("neurons"));
  toNeurons.hidden = !data.arrays.queries;
  const side = element("aside", { className: "side" });
  side.append(element("div", { className: "row-title" }, title, toHeads, toNeurons), kind, large, pair, patterns.list);
  side.append(element("p", { className: "note", text: "Rows are the tokens that look, columns those looked at. The notch is where attention spread evenly would be." }));
  const left = element("div", { className: "left scroll" }, grid);
  panel.append(element("div", { className: "controls" }, chips.group), element("div", { className: "split" }, left, side));

  const about = () => state.cell || { layer: state.layer, head: state.head };
  large.addEventListener("pointermove", (event) => {
    const found = pairAt(large, event);
    if (!found) return;
    const { layer, head } = about();
    pair.textContent = `${labels[found.query]} \u2192 ${labels[found.key]}  ${number(share(layer, head, found.query, found.key), 4)}`;
  });
  large.addEventListener("pointerleave", () => (pair.textContent = "\u00a0"));
  let drawn = "";
  const paint = () => {
    // As large as the room allows, but never so small that it cannot be pointed at.
    const size = Math.max(26, Math.min(84, Math.floor((left.clientWidth - 40) / HEADS) - 6));
    const now = `${size} ${state.filter} ${isDark()}`;
    if (now === drawn || left.clientWidth === 0) return;
    drawn = now;
    grid.style.setProperty("--cell", `${size}px`);
    for (const { cell, picture, layer, head } of cells) {
      drawMap(picture, layer, head, size);
      cell.style.setProperty("--accent", headColour(head));
    }
  };
  new ResizeObserver(paint).observe(left);
  return () => {
    const { layer, head } = about();
    for (const each of cells) {
      const off = state.pattern !== null && !data.patterns.named[each.layer][each.head].includes(state.pattern);
      each.cell.classList.toggle("off", off);
      const current = each.layer === layer && each.head === head;
      each.cell.classList.toggle("current", current);
      each.cell.dataset.current = current;
    }
    paint();
    settle();
    chips.draw();
    title.textContent = `Layer ${data.layers[layer]}, head ${data.heads[head]}`;
    kind.textContent = kindsDiffer ? kindOfLayer(layer) : "";
    large.style.setProperty("--accent", headColour(head));
    drawMap(large, layer, head, 316);
    patterns.draw(layer, head);
  };
}
