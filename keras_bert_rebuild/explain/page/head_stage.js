// Two columns of tokens and the lines between them, for one of the visible sources.

function tokenColumn(side, name, { value = false } = {}) {
  const column = element("div", { className: `column ${side}`, attributes: { role: "listbox", "aria-label": name } });
  let built = null;
  let rows = [];
  const settle = roving(column, { onMove: (row) => row.scrollIntoView({ block: "nearest" }) });
  const fill = (places) => {
    if (built === places) return rows;
    built = places;
    rows = places.map((i) => {
      const row = element("div", { className: "row", title: described(i) });
      row.setAttribute("role", "option");
      row.dataset.item = i;
      row.append(tokenElement(i));
      if (value) row.append(element("span", { className: "value" }));
      return { row, token: i, value: row.querySelector(".value") };
    });
    column.style.setProperty("--row", `${rowHeight(LENGTH)}px`);
    column.replaceChildren(...rows.map(({ row }) => row));
    settle();
    return rows;
  };
  const tokenOf = (event) => {
    const row = event.target.closest(".row");
    return row ? Number(row.dataset.item) : null;
  };
  return { column, fill, settle, tokenOf };
}

// The attention between each token and the current one, the mean over the selected heads; null if there is no current token.
function sharedWith(about, token, source) {
  if (!about || !state.heads.size) return null;
  const pair = about.side === "query" ? [about.token, token] : [token, about.token];
  let sum = 0;
  for (const head of state.heads) sum += share(state.layer, head, ...pair, source);
  return sum / state.heads.size;
}

function lookFromKeyboardAndPointer(side, { column, tokenOf }) {
  const look = (event) => {
    const token = tokenOf(event);
    if (token !== null) change({ hover: { side, token } });
  };
  column.addEventListener("pointerover", look);
  column.addEventListener("focusin", (event) => {
    look(event);
    const token = tokenOf(event);
    if (token !== null) say(`${labels[token]}, ${described(token)}`);
  });
  column.addEventListener("pointerleave", () => change({ hover: null }));
  column.addEventListener("focusout", () => change({ hover: null }));
  const pin = (event) => {
    const token = tokenOf(event);
    if (token === null) return;
    const same = state.pinned && state.pinned.side === side && state.pinned.token === token;
    change({ pinned: same ? null : { side, token } });
  };
  column.addEventListener("click", pin);
  column.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pin(event);
    } else if (event.key === "Escape") change({ pinned: null, hover: null });
  });
}

// `place` is the index of the source in shownSources(); a stage without a source is hidden.
function headStage(place) {
  const of = place || SOURCES.length > 1 ? `, ${"AB"[place]}` : "";
  const title = sourceTitle(place);
  const canvas = element("canvas", { className: "sticky", attributes: { role: "img", "aria-label": `Lines from queries to keys${of}` } });
  const lines = element("div", { className: "lines" }, canvas);
  const queries = tokenColumn("queries", `Queries: the tokens that attend${of}`, { value: true });
  const keys = tokenColumn("keys", `Keys: the tokens attended to${of}`, { value: true });
  const stage = element("div", { className: "stage headstage" }, queries.column, lines, keys.column);
  const titles = element("div", { className: "titles" });
  titles.append(element("span", { text: "This token \u2026" }), element("span", { text: "\u2026 attends to this one" }));
  const box = element("div", { className: "stagebox" }, title.title, titles, stage);
  lookFromKeyboardAndPointer("query", queries);
  lookFromKeyboardAndPointer("key", keys);
  const paint = () => {
    const source = shownSources()[place];
    if (source === undefined || !stage.clientHeight) return;
    const shownTokens = tokens();
    const row = rowHeight(LENGTH);
    lines.style.height = `${row * Math.max(shownTokens.queries.length, shownTokens.keys.length)}px`;
    const size = { width: lines.clientWidth, height: Math.min(stage.clientHeight, lines.clientHeight) };
    drawLines(canvas, source, { ...size, scroll: stage.scrollTop, row, ...shownTokens });
  };
  stage.addEventListener("scroll", paint, { passive: true });
  new ResizeObserver(paint).observe(stage);
  const draw = () => {
    const source = shownSources()[place];
    box.hidden = source === undefined;
    if (box.hidden) return;
    title.draw();
    const about = looked();
    for (const [side, column, places] of [["query", queries, tokens().queries], ["key", keys, tokens().keys]]) {
      for (const { row, token, value } of column.fill(places)) {
        row.classList.toggle("looked", Boolean(about) && about.side === side && about.token === token);
        row.setAttribute("aria-selected", Boolean(state.pinned) && state.pinned.side === side && state.pinned.token === token);
        const given = about && about.side !== side ? sharedWith(about, token, source) : null;
        value.textContent = given !== null && given >= 0.01 ? number(given, 2) : "";
        row.classList.toggle("away", given !== null && given < 0.01);
      }
    }
    paint();
  };
  return { box, stage, draw };
}

// Two stages scroll together.
function scrollTogether(stages) {
  for (const { stage } of stages) {
    stage.addEventListener("scroll", () => {
      for (const other of stages) if (other.stage !== stage && other.stage.scrollTop !== stage.scrollTop) other.stage.scrollTop = stage.scrollTop;
    }, { passive: true });
  }
}
