// Training view: for every head the score of a pattern by step, and one head in detail with all patterns.

const PATTERN_HUES = [255, 150, 300, 75, 20];
const patternColour = (pattern) => css(fromOklch(isDark() ? 0.76 : 0.52, 0.13, PATTERN_HUES[pattern]));
const LARGE_CURVES = { height: 190, pad: 8 };

// The pattern that changes most in any head.
function firstCurve() {
  const change_ = data.patterns.names.map((_, pattern) =>
    Math.max(...everyHead.map(({ layer, head }) => {
      const values = scoresByStep(pattern, layer, head);
      return values[LAST] - values[0];
    })),
  );
  return change_.indexOf(Math.max(...change_));
}

function curveChoice() {
  const choices = data.patterns.names.map((name, pattern) => ({ value: pattern, label: name, title: data.patterns.meanings[pattern] }));
  return choice("Pattern", choices, () => state.curve, (curve) => change({ curve }));
}

// All patterns of one head, with their names and the scores at the current step; a click on the picture selects another step.
function largeCurves() {
  const canvas = element("canvas", { className: "curves", attributes: { role: "img" } });
  const from = element("span");
  const to = element("span");
  const axis = element("p", { className: "note curveaxis" }, from, to);
  const list = element("ul", { className: "patterns curvelist" });
  const rows = data.patterns.names.map((name) => {
    const swatch = element("i", { className: "swatch" });
    const value = element("b", { className: "value" });
    const row = element("li", {}, element("span", {}, swatch, name), element("span", { className: "note" }), value);
    list.append(row);
    return { row, swatch, value, note: row.children[1] };
  });
  let across = null;
  canvas.addEventListener("click", (event) => {
    const at = event.clientX - canvas.getBoundingClientRect().left;
    const nearest = SOURCES.map((_, i) => Math.abs(across(i) - at));
    showSource(nearest.indexOf(Math.min(...nearest)));
  });
  const draw = (layer, head, width) => {
    const series = data.patterns.names.map((_, pattern) => ({ values: scoresByStep(pattern, layer, head), colour: patternColour(pattern), width: pattern === state.curve ? 2.4 : 1.2 }));
    ({ across } = drawCurves(canvas, width, LARGE_CURVES.height, series, { mark: state.source, pad: LARGE_CURVES.pad, grid: true }));
    canvas.setAttribute("aria-label", `Scores by step, 0 to 1: ${data.patterns.names.map((_, pattern) => courseOf(pattern, layer, head)).join("; ")}`);
    from.textContent = `step ${grouped(SOURCES[0].step)}`;
    to.textContent = grouped(SOURCES[LAST].step);
    rows.forEach(({ row, swatch, value, note }, pattern) => {
      swatch.style.background = patternColour(pattern);
      value.textContent = number(series[pattern].values[state.source], 2);
      const since = becameAt(pattern, layer, head);
      note.textContent = since === null ? "" : `since step ${grouped(SOURCES[since].step)}`;
      row.classList.toggle("named", SOURCES[state.source].named[layer][head].includes(pattern));
    });
  };
  return { parts: [canvas, axis, list], draw };
}

function trainingView(panel) {
  state.curve = firstCurve();
  const curve = curveChoice();
  const order = orderChoice();
  const left = element("div", { className: "left scroll" });
  const grid = headGrid({
    label: "Heads of all layers: score by step",
    picture: (canvas, layer, head, width, height) => {
      const values = scoresByStep(state.curve, layer, head);
      drawCurves(canvas, width, height, [{ values, colour: headColour(head), width: 1.6 }], { mark: state.source });
    },
    named: (layer, head) => courseOf(state.curve, layer, head),
    open: (layer, head) => change({ tab: "heads", layer, head, heads: new Set([head]), hover: null, pinned: null }),
    room: () => left.clientWidth,
  });
  left.append(grid.grid);
  const title = element("h2");
  const course = element("p", { className: "note" });
  const curves = largeCurves();
  const map = element("canvas", { className: "large", attributes: { role: "img" } });
  const side = element("aside", { className: "side", attributes: { "aria-label": "One head" } });
  side.append(title, course, ...curves.parts, map);
  panel.append(element("div", { className: "controls" }, curve.group, order.group), element("div", { className: "split broad" }, left, side));
  const paint = () => grid.draw(`${state.source} ${state.curve}`);
  const drawSide = () => {
    const { layer, head } = aboutHead();
    const width = Math.min(side.clientWidth, 420);
    if (!width) return;
    title.textContent = `Layer ${data.layers[layer]}, head ${data.heads[head]}`;
    course.textContent = courseOf(state.curve, layer, head);
    curves.draw(layer, head, width);
    map.setAttribute("aria-label", `Map at step ${grouped(SOURCES[state.source].step)}`);
    drawLabelledMap(map, layer, head, width, { source: state.source }, null);
  };
  new ResizeObserver(paint).observe(left);
  new ResizeObserver(drawSide).observe(side);
  return () => {
    curve.draw();
    order.draw();
    paint();
    drawSide();
  };
}
