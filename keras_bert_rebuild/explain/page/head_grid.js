// Every head of every layer as a small picture: in rows of layers, or sorted by a number.

const GAP = 6;
const LEAST_CELL = 24; // smaller cells are hard to point at
const SORTED_CELL = 62;

// `picture(canvas, layer, head, width, height)` paints that of a head, `named(layer, head)` describes it in words, `open` is called with
// the selected layer and head.
function headGrid({ label, picture, named, open, room, shape = 1 }) {
  const grid = element("div", { className: "grid", attributes: { role: "group", "aria-label": label } });
  const axes = [
    element("span", { className: "corner" }),
    ...data.heads.map((head) => element("span", { className: "axis", text: String(head), title: `Head ${head}`, attributes: { "aria-hidden": "true" } })),
  ];
  const rowAxes = data.layers.map((number_, layer) =>
    element("span", { className: "axis", text: String(number_), title: `Layer ${number_}${kindsDiffer ? `: ${kindOfLayer(layer)}` : ""}`, attributes: { "aria-hidden": "true" } }),
  );
  const cells = everyHead.map(({ layer, head }) => {
    const canvas = element("canvas");
    const where = element("span", { className: "where", attributes: { "aria-hidden": "true" } });
    const cell = element("button", { type: "button", className: "cell" }, canvas, where);
    cell.dataset.item = `${layer} ${head}`;
    const look = () => change({ cell: { layer, head } });
    cell.addEventListener("pointerenter", look);
    cell.addEventListener("focus", look);
    cell.addEventListener("click", () => open(layer, head));
    return { cell, canvas, where, layer, head };
  });
  let columns = HEADS;
  const settle = roving(grid, { columns: () => columns });
  let arranged = "";
  const arrange = (inOrder, id) => {
    const now = id === "layer" ? id : inOrder.map(({ cell }) => cell.dataset.item).join();
    if (now === arranged) return;
    arranged = now;
    grid.classList.toggle("sorted", id !== "layer");
    if (id === "layer") {
      const rows = rowAxes.flatMap((axis, layer) => [axis, ...cells.slice(layer * HEADS, (layer + 1) * HEADS).map(({ cell }) => cell)]);
      grid.replaceChildren(...axes, ...rows);
    } else grid.replaceChildren(...inOrder.map(({ cell }) => cell));
  };
  let drawn = "";
  const draw = (now) => {
    const width = room();
    if (!width) return;
    const { id, value } = currentOrder();
    const sorted = id !== "layer";
    arrange(ordered(cells), id);
    const gap = width < 420 ? 2 : GAP;
    // As large as the room allows, but never too small to point at.
    const size = sorted ? SORTED_CELL : Math.max(LEAST_CELL, Math.min(84, Math.floor((width - 22 - gap * (HEADS + 1)) / HEADS)));
    columns = sorted ? Math.max(1, Math.floor((width + gap) / (size + gap))) : HEADS;
    grid.style.gap = `${gap}px`;
    grid.style.gridTemplateColumns = sorted ? `repeat(${columns}, ${size}px)` : `20px repeat(${HEADS}, ${size}px)`;
    const { layer, head } = aboutHead();
    for (const each of cells) {
      const current = each.layer === layer && each.head === head;
      const off = state.pattern !== null && !shownSources().some((source) => SOURCES[source].named[each.layer][each.head].includes(state.pattern));
      each.cell.classList.toggle("off", off);
      each.cell.classList.toggle("current", current);
      each.cell.dataset.current = current;
    }
    settle();
    const asked = `${now} ${size} ${state.filter} ${isDark()} ${arranged}`;
    if (asked === drawn) return;
    drawn = asked;
    for (const { cell, canvas, where, layer: l, head: h } of cells) {
      cell.style.setProperty("--accent", headColour(h));
      cell.style.setProperty("--cell", `${size}px`);
      picture(canvas, l, h, size, Math.round(size * shape));
      where.textContent = sorted ? `${data.layers[l]}\u00b7${data.heads[h]}  ${number(value(l, h), 2)}` : "";
      const words = named(l, h);
      cell.setAttribute("aria-label", `Layer ${data.layers[l]}, head ${data.heads[h]}${words ? `: ${words}` : ""}`);
    }
  };
  return { grid, draw };
}

// The head under the pointer, or else the selected one.
const aboutHead = () => state.cell || { layer: state.layer, head: state.head };

const patternWords = (layer, head, source = state.source) =>
  patternsOf(layer, head, source).map(({ name, score }) => `${name} ${number(score, 2)}`).join(", ");
