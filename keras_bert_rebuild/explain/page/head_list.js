// The heads of a layer, each of which can be switched off, and in numbers the attention from or to the current token.

function headRow(head) {
  const pictures = SOURCES.length > 1 ? [element("canvas", { className: "mini" }), element("canvas", { className: "mini" })] : [element("canvas", { className: "mini" })];
  const named = element("span", { className: "named" });
  const row = element("button", { type: "button", className: "head" });
  row.setAttribute("role", "checkbox");
  row.dataset.item = head;
  row.append(element("i", { className: "dot" }), ...pictures, element("span", { className: "name", text: `Head ${data.heads[head]}` }), named);
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
  return { row, pictures, named, head };
}

function headList() {
  const list = element("div", { className: "heads", attributes: { role: "group", "aria-label": "Heads" } });
  const rows = data.heads.map((_, head) => headRow(head));
  list.append(...rows.map(({ row }) => row));
  const settle = roving(list);
  let drawn = "";
  let inOrder = rows.map((_, head) => head).join();
  const sort = () => {
    const wanted = ordered(rows.map(({ head }) => ({ layer: state.layer, head }))).map(({ head }) => head);
    if (wanted.join() === inOrder) return;
    inOrder = wanted.join();
    list.append(...wanted.map((head) => rows[head].row));
  };
  const draw = () => {
    const sources = shownSources();
    const { id, word, value } = currentOrder();
    const now = `${state.layer} ${state.filter} ${isDark()} ${sources} ${id}`;
    sort();
    rows.forEach(({ row, pictures, named }, head) => {
      row.setAttribute("aria-checked", state.heads.has(head));
      row.dataset.current = state.head === head;
      if (now === drawn) return;
      row.style.setProperty("--accent", headColour(head));
      pictures.forEach((picture, place) => {
        picture.hidden = place >= sources.length;
        if (!picture.hidden) drawMap(picture, state.layer, head, 24, { source: sources[place] });
      });
      const [best] = patternsOf(state.layer, head);
      const apart = sources.length > 1 ? divergence(state.layer, head) : null;
      if (value) named.textContent = `${word} ${number(value(state.layer, head), 3)}`;
      else if (apart !== null) named.textContent = `divergence ${number(apart, 3)}`;
      else named.textContent = best ? `${best.name} ${number(best.score, 2)}` : "";
      row.title = best ? `${best.meaning}: ${number(best.score, 2)} of its attention` : "follows none of the known patterns";
    });
    drawn = now;
    settle();
  };
  return { list, draw };
}

function readingRow() {
  const fills = [0, 1].map(() => element("i", { className: "fill" }));
  const row = element("li");
  row.append(element("span", { className: "token" }), element("span", { className: "track" }, ...fills), element("b", { className: "value" }));
  return { row, fills };
}

function reading() {
  const title = element("h2");
  const note = element("p", { className: "note" });
  const list = element("ol", { className: "shares" });
  const rows = Array.from({ length: 6 }, readingRow);
  list.append(...rows.map(({ row }) => row));
  const box = element("div", { className: "reading" }, title, note, list);
  // With two sources, the tokens in which they differ most come first.
  const found = () => {
    const about = looked();
    const { queries, keys } = tokens();
    const sources = shownSources();
    const all = (about.side === "query" ? keys : queries).map((other) => ({ other, values: sources.map((source) => sharedWith(about, other, source)) }));
    const size = sources.length > 1 ? ({ values: [a, b] }) => Math.abs(b - a) : ({ values: [a] }) => a;
    return all.sort((a, b) => size(b) - size(a));
  };
  const draw = () => {
    const about = looked();
    const heads = [...state.heads];
    const two = shownSources().length > 1;
    const shares = about && heads.length ? found() : [];
    title.textContent = !shares.length ? "In numbers" : about.side === "query" ? `${labels[about.token]} attends to` : `${labels[about.token]} is attended to by`;
    const of = heads.length > 1 ? `Mean of the ${heads.length} selected heads` : `Head ${data.heads[heads[0]] ?? "\u2013"}`;
    note.textContent = !about ? "Point at a token; click to pin it." : two ? `${of}, A and B; the largest difference first` : of;
    rows.forEach(({ row, fills }, i) => {
      const [token, , value] = row.children;
      const here = shares[i];
      row.classList.toggle("empty", !here);
      row.dataset.token = here ? here.other : "";
      token.textContent = here ? labels[here.other] : "\u00a0";
      token.dir = "auto";
      fills.forEach((fill, place) => {
        fill.hidden = Boolean(place) && !two;
        fill.style.width = here ? `${100 * (here.values[place] || 0)}%` : "0";
      });
      value.textContent = here ? here.values.map((v) => number(v, two ? 3 : 4)).join(" \u2192 ") : "";
    });
    list.classList.toggle("two", two);
    list.style.setProperty("--accent", heads.length === 1 ? headColour(heads[0]) : css(palette().soft));
  };
  return { box, draw };
}
