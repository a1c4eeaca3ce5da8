// Why view: how much every token contributed to a prediction, under the token.

function whyNumbers(attribution) {
  const { scores, value, baseline } = attribution;
  const sum = scores.reduce((total, score) => total + score, 0);
  const rows = [["sum of the scores", sum]];
  if (value !== null) rows.push(["the model\u2019s value", value]);
  if (baseline !== null) rows.push(["value of the baseline", baseline]);
  if (value !== null && baseline !== null) rows.push(["value \u2212 baseline \u2212 sum", value - baseline - sum]);
  return element("dl", { className: "steps" }, ...rows.flatMap(([name, figure]) => [element("dt", { text: name }), element("dd", { text: number(figure, 4) })]));
}

// One answer of one source: the tokens with their scores, and beside them the numbers.
function whyOf(source) {
  const running = element("p", { className: "why", attributes: { role: "list", "aria-label": ARE_MODELS ? `Tokens and their scores, ${"AB"[source]}` : "Tokens and their scores" } });
  const cells = everyToken.map((i) => {
    const bar = element("i", { className: "whybar" });
    const value = element("small");
    const cell = element("span", { className: "whytoken", title: described(i), attributes: { role: "listitem" } }, tokenElement(i), bar, value);
    cell.classList.toggle("goes-on", data.continues[i]);
    running.append(cell);
    return { cell, bar, value };
  });
  const title = element("h2");
  const method = element("p", { className: "note" });
  const figures = element("div");
  const list = element("ol", { className: "shares" });
  const numbers = element("div", { className: "whynumbers" }, title, method, list, figures);
  const draw = (attribution) => {
    const { scores } = attribution;
    const most = Math.max(...scores.map(Math.abs), 1e-12);
    title.textContent = `${ARE_MODELS ? `${"AB"[source]} \u00b7 ` : ""}${seen(attribution.target)}`;
    method.textContent = seen(attribution.method);
    cells.forEach(({ cell, bar, value }, i) => {
      cell.style.setProperty("--tint", signed(0.3 * scores[i], most));
      bar.style.width = `${(100 * Math.abs(scores[i])) / most}%`;
      bar.style.background = signed(scores[i] < 0 ? -most : most, most);
      value.textContent = number(scores[i], 3);
    });
    const strongest_ = [...everyToken].sort((a, b) => Math.abs(scores[b]) - Math.abs(scores[a])).slice(0, 8);
    list.replaceChildren(...strongest_.map((i) => {
      const fill = element("i", { className: "fill" });
      fill.style.width = `${(100 * Math.abs(scores[i])) / most}%`;
      fill.style.background = signed(scores[i] < 0 ? -most : most, most);
      return element("li", {}, tokenElement(i), element("span", { className: "track" }, fill), element("b", { className: "value", text: number(scores[i], 3) }));
    }));
    figures.replaceChildren(whyNumbers(attribution));
  };
  return { running, numbers, draw };
}

function whyView(panel) {
  const explained = SOURCES.map((_, source) => source).filter((source) => SOURCES[source].attributions.length);
  const count = Math.max(...explained.map((source) => SOURCES[source].attributions.length));
  // Of two models the answers of one place are shown together; where a model has fewer, its last.
  const at = (source, place) => SOURCES[source].attributions[Math.min(place, SOURCES[source].attributions.length - 1)];
  const choices = Array.from({ length: count }, (_, place) => {
    const names = explained.map((source) => `${seen(at(source, place).target)} \u00b7 ${seen(at(source, place).method)}`);
    return { value: place, label: [...new Set(names)].join(" | ") };
  });
  const picked = choice("Answer", choices, () => state.why, (why) => change({ why }));
  const shown_ = explained.map((source) => ({ source, ...whyOf(source) }));
  const side = element("aside", { className: "side", attributes: { "aria-label": "Scores in numbers" } }, ...shown_.map(({ numbers }) => numbers));
  const left = element("div", { className: "left" });
  for (const { source, running } of shown_) left.append(...(ARE_MODELS ? [ownTitle(source)] : []), running);
  left.append(element("p", { className: "note", text: "Blue words raise the score of the answer, orange words lower it; a stronger colour means more." }));
  panel.append(element("div", { className: "controls" }, picked.group), element("div", { className: "split" }, left, side));
  let drawn = "";
  return () => {
    picked.draw();
    const now = `${state.why} ${isDark()}`;
    if (now === drawn) return;
    drawn = now;
    for (const { source, draw } of shown_) draw(at(source, state.why));
  };
}
