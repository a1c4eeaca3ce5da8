// Head view: lines from token to token, for one layer and any of its heads.

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

function headList() {
  const list = element("div", { className: "heads", attributes: { role: "group", "aria-label": "Heads" } });
  const rows = data.heads.map((number_, head) => {
    const picture = element("canvas", { className: "mini" });
    const named = element("span", { className: "named" });
    const row = element("button", { type: "button", className: "head" });
    row.setAttribute("role", "checkbox");
    row.dataset.item = head;
    row.append(element("i", { className: "dot" }), picture, element("span", { className: "name", text: `Head ${number_}` }), named);
    row.addEventListener("click", () => {
      const heads = new Set(state.heads);
      if (!heads.delete(head)) heads.add(head);
      change({ heads, head: heads.has(head) ? head : state.head });
    });
    row.addEventListener("dblclick", () => change({ heads: new Set([head]), head }));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        change({ heads: new Set([head]), head });
      }
    });
    list.append(row);
    return { row, picture, named };
  });
  const settle = roving(list);
  let drawn = "";
  const draw = () => {
    const now = `${state.layer} ${state.filter} ${isDark()}`;
    rows.forEach(({ row, picture, named }, head) => {
      row.setAttribute("aria-checked", state.heads.has(head));
      row.dataset.current = state.head === head;
      if (now === drawn) return;
      row.style.setProperty("--accent", headColour(head));
      drawMap(picture, state.layer, head, 24);
      const [best] = patternsOf(state.layer, head);
      named.textContent = best ? `${best.name} ${number(best.score, 2)}` : "";
      row.title = best ? `${best.meaning}: ${number(best.score, 2)} of its attention` : "follows none of the known patterns";
    });
    drawn = now;
    settle();
  };
  return { list, draw };
}

// In numbers: what the token that is looked at gives, or is given.
function reading() {
  const title = element("h3");
  const note = element("p", { className: "note" });
  const list = element("ol", { className: "shares" });
  const rows = Array.from({ length: 6 }, () => {
    const row = element("li");
    row.append(element("span", { className: "token" }), element("span", { className: "track" }, element("i", { className: "fill" })));
    row.append(element("b", { className: "value" }));
    list.append(row);
    return row;
  });
  const box = element("div", { className: "reading" }, title, note, list);
  const draw = () => {
    const about = looked();
    const heads = [...state.heads];
    const { queries, keys } = tokens();
    const found = [];
    if (about && heads.length) {
      for (const other of about.side === "query" ? keys : queries) {
        const pair = about.side === "query" ? [about.token, other] : [other, about.token];
        found.push({ other, value: heads.reduce((sum, head) => sum + share(state.layer, head, ...pair), 0) / heads.length });
      }
      found.sort((a, b) => b.value - a.value);
      title.textContent = about.side === "query" ? `${labels[about.token]} looks at` : `${labels[about.token]} is looked at by`;
    } else title.textContent = "In numbers";
    note.textContent = !about
      ? "Point at a token; a click keeps it."
      : heads.length > 1 ? `Mean of the ${heads.length} heads chosen` : `Head ${data.heads[heads[0]] ?? "\u2013"}`;
    rows.forEach((row, i) => {
      const [token, track, value] = row.children;
      row.classList.toggle("empty", !found[i]);
      row.dataset.token = found[i] ? found[i].other : "";
      token.textContent = found[i] ? labels[found[i].other] : "\u00a0";
      token.dir = "auto";
      track.firstChild.style.width = found[i] ? `${100 * found[i].value}%` : "0";
      value.textContent = found[i] ? number(found[i].value, 4) : "";
    });
    list.style.setProperty("--accent", heads.length === 1 ? headColour(heads[0]) : css(palette().soft));
  };
  return { box, draw };
}

function headView(panel) {
  const layer = layerChoice();
  const canvas = element("canvas", { className: "sticky", attributes: { role: "img", "aria-label": "Lines from queries to keys" } });
  const lines = element("div", { className: "lines" }, canvas);
  const queries = tokenColumn("queries", "Queries: the tokens that look", { value: true });
  const keys = tokenColumn("keys", "Keys: the tokens looked at", { value: true });
  const stage = element("div", { className: "stage headstage" }, queries.column, lines, keys.column);
  const heads = headList();
  const numbers = reading();
  const all = element("button", { type: "button", className: "quiet", text: "All" });
  const none = element("button", { type: "button", className: "quiet", text: "None" });
  all.addEventListener("click", () => change({ heads: new Set(data.heads.keys()) }));
  none.addEventListener("click", () => change({ heads: new Set() }));
  const side = element("aside", { className: "side" });
  side.append(element("div", { className: "row-title" }, element("h3", { text: "Heads" }), all, none), heads.list, numbers.box);
  const titles = element("div", { className: "titles" });
  titles.append(element("span", { text: "This token \u2026" }), element("span", { text: "\u2026 looks at this one" }));
  const left = element("div", { className: "left" }, titles, stage);
  panel.append(element("div", { className: "controls" }, layer.group), element("div", { className: "split" }, left, side));

  for (const [side_, { column, tokenOf }] of [["query", queries], ["key", keys]]) {
    const look = (event) => {
      const token = tokenOf(event);
      if (token !== null) change({ hover: { side: side_, token } });
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
      const same = state.pinned && state.pinned.side === side_ && state.pinned.token === token;
      change({ pinned: same ? null : { side: side_, token } });
    };
    column.addEventListener("click", pin);
    column.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        pin(event);
      } else if (event.key === "Escape") change({ pinned: null, hover: null });
    });
  }
  const paint = () => {
    const shownTokens = tokens();
    const row = rowHeight(LENGTH);
    lines.style.height = `${row * Math.max(shownTokens.queries.length, shownTokens.keys.length)}px`;
    const size = { width: lines.clientWidth, height: Math.min(stage.clientHeight, lines.clientHeight) };
    drawLines(canvas, { ...size, scroll: stage.scrollTop, row, ...shownTokens });
  };
  stage.addEventListener("scroll", paint, { passive: true });
  new ResizeObserver(paint).observe(stage);
  return () => {
    const about = looked();
    const count = state.heads.size;
    for (const [side_, column, places] of [["query", queries, tokens().queries], ["key", keys, tokens().keys]]) {
      for (const { row, token, value } of column.fill(places)) {
        const chosen = Boolean(about) && about.side === side_ && about.token === token;
        row.classList.toggle("looked", chosen);
        row.setAttribute("aria-selected", Boolean(state.pinned) && state.pinned.side === side_ && state.pinned.token === token);
        let share_ = null;
        if (about && about.side !== side_ && count) {
          const pair = side_ === "key" ? [about.token, token] : [token, about.token];
          share_ = 0;
          for (const head of state.heads) share_ += share(state.layer, head, ...pair) / count;
        }
        value.textContent = share_ !== null && share_ >= 0.01 ? number(share_, 2) : "";
        row.classList.toggle("away", share_ !== null && share_ < 0.01);
      }
    }
    layer.draw();
    heads.draw();
    numbers.draw();
    paint();
  };
}
