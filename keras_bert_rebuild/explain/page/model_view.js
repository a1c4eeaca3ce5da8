// Model view: every layer and head as a small map, of one source or two; the selected one large next to them.

function patternChips() {
  const group = element("div", { className: "choice chips", attributes: { role: "group", "aria-label": "Known patterns" } });
  group.append(element("span", { className: "name", text: "Patterns" }));
  const buttons = data.patterns.names.map((name, pattern) => {
    const button = element("button", { type: "button" }, name, element("b"));
    button.dataset.item = pattern;
    button.addEventListener("click", () => change({ pattern: state.pattern === pattern ? null : pattern }));
    group.append(button);
    return button;
  });
  const settle = roving(group, { vertical: false });
  return {
    group,
    draw: () => {
      buttons.forEach((button, pattern) => {
        const counts = shownSources().map((source) => SOURCES[source].named.flat().filter((found) => found.includes(pattern)).length);
        button.lastChild.textContent = counts.join(" \u2192 ");
        button.title = `${data.patterns.meanings[pattern]}: ${counts.join(" and ")} head${counts.length === 1 && counts[0] === 1 ? "" : "s"}`;
        button.disabled = !counts.some(Boolean);
        button.setAttribute("aria-pressed", state.pattern === pattern);
      });
      settle();
    },
  };
}

// A large map: of one source, or of the difference of two.
function largeMap(place, look) {
  const title = place === "difference" ? element("h2", { className: "sourcetitle", text: "B less A \u00b7 blue where B gives more" }) : null;
  const source = title ? null : sourceTitle(place);
  const canvas = element("canvas", { className: "large", tabIndex: 0, attributes: { role: "img" } });
  const box = element("div", { className: "largebox" }, title || source.title, canvas);
  let area = null;
  canvas.addEventListener("pointermove", (event) => look(pairAt(canvas, area, event)));
  canvas.addEventListener("pointerleave", () => look(null));
  const draw = (layer, head, width, at) => {
    const shown_ = shownSources();
    box.hidden = place === "difference" ? shown_.length < 2 : place >= shown_.length;
    if (box.hidden) return;
    if (source) source.draw();
    const of = title ? { from: shown_[0], to: shown_[1] } : { source: shown_[place] };
    const what = title ? "Difference of the maps" : shown_.length > 1 ? `Map of ${sourceName(shown_[place])}` : "Map";
    canvas.setAttribute("aria-label", `${what}, layer ${data.layers[layer]}, head ${data.heads[head]}; arrow keys move over its pairs of tokens`);
    area = drawLabelledMap(canvas, layer, head, width, of, at);
  };
  return { box, canvas, draw };
}

function modelView(panel) {
  const chips = patternChips();
  const order = orderChoice();
  const pictures = [
    { value: "maps", label: "Side by side", title: "The maps of both, side by side" },
    { value: "difference", label: "Difference", title: "One map for each head: B less A" },
  ];
  const kinds = choice("Maps", pictures, () => state.picture, (picture) => change({ picture }));
  const left = element("div", { className: "left scroll grids" });
  const open = (layer, head) => change({ tab: "heads", layer, head, heads: new Set([head]), hover: null, pinned: null });
  const makeGrid = (place) => {
    const title = place === "difference" ? null : sourceTitle(place);
    const box = element("div", { className: "gridbox" }, ...(title ? [title.title] : []));
    const of = () => (place === "difference" ? { from: shownSources()[0], to: shownSources()[1] } : { source: shownSources()[place] });
    const grid = headGrid({
      label: `Heads of all layers${place === "difference" ? ": difference" : SOURCES.length > 1 ? `, ${"AB"[place]}` : ""}`,
      picture: (canvas, layer, head, size) => drawMap(canvas, layer, head, size, of()),
      named: (layer, head) => (place === "difference" ? `divergence ${number(divergence(layer, head), 3)}` : patternWords(layer, head, shownSources()[place])),
      open,
      room: () => box.clientWidth,
    });
    box.append(grid.grid);
    left.append(box);
    return {
      draw: () => {
        const difference = state.picture === "difference" && shownSources().length > 1;
        box.hidden = place === "difference" ? !difference : difference || place >= shownSources().length;
        if (box.hidden) return;
        if (title) title.draw();
        grid.draw(Object.values(of()).join());
      },
    };
  };
  const grids = (SOURCES.length > 1 ? [0, 1, "difference"] : [0]).map(makeGrid);

  const title = element("h2");
  const kind = element("p", { className: "note kind" });
  const numbers = element("p", { className: "note headnumbers" });
  const pair = element("p", { className: "note pair", text: "\u00a0" });
  let at = null; // the pair of tokens that is looked at
  const look = (found) => {
    at = found;
    drawLarge();
  };
  const maps = (SOURCES.length > 1 ? [0, 1, "difference"] : [0]).map((place) => largeMap(place, look));
  const patterns = patternList();
  const toHeads = element("button", { type: "button", className: "quiet", text: "Lines" });
  const toNeurons = element("button", { type: "button", className: "quiet", text: "Neurons" });
  const openTab = (tab) => () => {
    const { layer, head } = aboutHead();
    change({ tab, layer, head, heads: new Set([head]), query: null, key: null });
  };
  toHeads.addEventListener("click", openTab("heads"));
  toNeurons.addEventListener("click", openTab("neurons"));
  toNeurons.hidden = !data.arrays.queries;
  const large = element("div", { className: "larges" }, ...maps.map(({ box }) => box));
  const side = element("aside", { className: "side", attributes: { "aria-label": "One head" } });
  side.append(element("div", { className: "row-title" }, title, toHeads, toNeurons), kind, numbers, large, pair, patterns.list);
  side.append(element("p", { className: "note", text: "Rows are queries, the tokens that attend; columns are keys, the tokens attended to. The notch marks evenly spread attention." }));
  panel.append(element("div", { className: "controls" }, chips.group, order.group, ...(SOURCES.length > 1 ? [kinds.group] : [])));
  panel.append(element("div", { className: "split broad" }, left, side));

  const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  large.addEventListener("keydown", (event) => {
    const { queries, keys } = tokens();
    const step = move[event.key];
    if (!step || !queries.length || !keys.length) return;
    event.preventDefault();
    const next = (places, token, by) => places[Math.min(Math.max(places.indexOf(token) + by, 0), places.length - 1)];
    look(at ? { query: next(queries, at.query, step[0]), key: next(keys, at.key, step[1]) } : { query: queries[0], key: keys[0] });
    say(pair.textContent);
  });
  const drawLarge = () => {
    const { layer, head } = aboutHead();
    const width = Math.min(side.clientWidth, 420);
    if (!width) return;
    const two = shownSources().length > 1;
    // Two maps side by side above their difference, unless the screen is as narrow as a phone's.
    const half = two && window.innerWidth > 560;
    large.classList.toggle("two", half);
    maps.forEach((map, i) => map.draw(layer, head, half && i < 2 ? Math.floor((width - 12) / 2) : width, at));
    const shares = at ? shownSources().map((source) => number(share(layer, head, at.query, at.key, source), 4)).join(" \u2192 ") : "";
    pair.textContent = at ? `${labels[at.query]} \u2192 ${labels[at.key]}  ${shares}` : "\u00a0";
  };
  const paint = () => grids.forEach((grid) => grid.draw());
  new ResizeObserver(paint).observe(left);
  new ResizeObserver(drawLarge).observe(side);
  return () => {
    const { layer, head } = aboutHead();
    const two = shownSources().length > 1;
    left.classList.toggle("two", two && state.picture === "maps");
    kinds.group.hidden = !two;
    if (two) kinds.draw();
    order.draw();
    chips.draw();
    paint();
    title.textContent = `Layer ${data.layers[layer]}, head ${data.heads[head]}`;
    kind.textContent = kindsDiffer ? kindOfLayer(layer) : "";
    kind.hidden = !kindsDiffer;
    const facts = ORDERS.filter(({ value, id }) => value && (id !== "divergence" || two));
    numbers.textContent = facts.map(({ word, value }) => `${word} ${number(value(layer, head), 4)}`).join(" \u00b7 ");
    numbers.hidden = !facts.length;
    side.style.setProperty("--accent", headColour(head));
    drawLarge();
    patterns.draw(layer, head);
  };
}
