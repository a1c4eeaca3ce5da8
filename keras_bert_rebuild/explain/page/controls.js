// Tabs, filter, theme, and the choice of layer and head that several views share.

// A row of buttons, one of which is selected. `choices` are { value, label, title, disabled, head }.
function choice(name, choices, current, choose) {
  const group = element("div", { className: "choice", attributes: { role: "radiogroup", "aria-label": name } });
  group.append(element("span", { className: "name", text: name }));
  const buttons = choices.map(({ value, label, title, disabled, head }) => {
    const button = element("button", { type: "button", text: label, disabled: Boolean(disabled), title: title || "" });
    button.setAttribute("role", "radio");
    button.dataset.item = value;
    if (title) button.setAttribute("aria-label", title);
    if (head !== undefined) button.dataset.head = head;
    button.addEventListener("click", () => choose(value));
    group.append(button);
    return button;
  });
  const settle = roving(group, { vertical: false, onMove: (button) => button.click() });
  const draw = () => {
    buttons.forEach((button, i) => {
      const chosen = choices[i].value === current();
      button.setAttribute("aria-checked", chosen);
      button.dataset.current = chosen;
      if (button.dataset.head !== undefined) button.style.setProperty("--accent", headColour(Number(button.dataset.head)));
    });
    settle();
  };
  draw();
  return { group, draw };
}

function layerChoice() {
  const choices = data.layers.map((layer, place) => ({ value: place, label: String(layer), title: `Layer ${layer}` }));
  const made = choice("Layer", choices, () => state.layer, (layer) => change({ layer, cell: null }));
  if (LAYERS < data.layerCount || HEADS < data.headCount) {
    const text = `${LAYERS} of the ${data.layerCount} layers and ${HEADS} of the ${data.headCount} heads are on this page.`;
    made.group.append(element("span", { className: "note", text }));
  }
  if (kindsDiffer) {
    const kind = element("span", { className: "note kind" });
    made.group.append(kind);
    const { draw } = made;
    made.draw = () => {
      draw();
      kind.textContent = kindOfLayer(state.layer);
    };
    made.draw();
  }
  return made;
}

// The attention span and rotary positions of a layer, for models that have windows or rotary positions.
const kindsDiffer = SOURCES.some(({ thetas, windows }) => Boolean(thetas) || windows.some((window) => window !== null));

function kindOfLayer(layer) {
  const kinds = shownSources().map((source) => {
    const { thetas, windows } = SOURCES[source];
    const seen_ = windows[layer] === null ? "every token" : `window of ${2 * windows[layer]}: \u00b1${windows[layer]}`;
    return thetas && thetas[layer] ? `${seen_} \u00b7 rotary positions, theta ${grouped(thetas[layer])}` : seen_;
  });
  return kinds.every((kind) => kind === kinds[0]) ? kinds[0] : kinds.map((kind, place) => `${"AB"[place]}: ${kind}`).join("; ");
}

function headChoice() {
  const choices = data.heads.map((head, place) => ({ value: place, label: String(head), title: `Head ${head}`, head: place }));
  return choice("Head", choices, () => state.head, (head) => change({ head, cell: null }));
}

function filterChoice() {
  const choices = FILTERS.map(({ id, label, title }) => ({ value: id, label, title, disabled: id !== "all" && !hasPair }));
  return choice("Sentences", choices, () => state.filter, (filter) => {
    change({ filter, hover: null, pinned: null, query: null, key: null });
  });
}

const THEMES = [["", "Theme: as the system"], ["light", "Theme: light"], ["dark", "Theme: dark"]];

function themeSwitch(button) {
  let at = 0;
  const draw = () => {
    const [theme, label] = THEMES[at];
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    button.textContent = label;
    change({});
  };
  button.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    draw();
  });
  darkWanted.addEventListener("change", draw);
  draw();
}

// Views are { id, label, build } where build(panel) returns a function that draws; a view is built when first opened.
function tabs(bar, main, views) {
  const draws = new Map();
  const buttons = views.map(({ id, label }) => {
    const button = element("button", { type: "button", id: `tab-${id}`, text: label });
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", `panel-${id}`);
    button.dataset.item = id;
    button.addEventListener("click", () => change({ tab: id }));
    bar.append(button);
    return button;
  });
  const panels = views.map(({ id }) => {
    const panel = element("section", { id: `panel-${id}`, className: "panel", hidden: true });
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `tab-${id}`);
    main.append(panel);
    return panel;
  });
  const settle = roving(bar, { vertical: false, onMove: (button) => button.click() });
  listen(() => {
    views.forEach(({ id, build }, i) => {
      const chosen = state.tab === id;
      buttons[i].setAttribute("aria-selected", chosen);
      buttons[i].dataset.current = chosen;
      panels[i].hidden = !chosen;
      if (chosen && !draws.has(id)) draws.set(id, build(panels[i]));
      if (chosen) draws.get(id)();
    });
    settle();
  });
}
