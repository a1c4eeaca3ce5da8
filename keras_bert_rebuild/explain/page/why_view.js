// Why view: under every word how much it contributed to an answer.

function whyNumbers(attribution) {
  const { scores, value, baseline } = attribution;
  const sum = scores.reduce((total, score) => total + score, 0);
  const rows = [["sum of the scores", sum]];
  if (value !== null) rows.push(["the model\u2019s value", value]);
  if (baseline !== null) rows.push(["value of the baseline", baseline]);
  if (value !== null && baseline !== null) rows.push(["value less baseline less sum", value - baseline - sum]);
  return element("dl", { className: "steps" }, ...rows.flatMap(([name, figure]) => [element("dt", { text: name }), element("dd", { text: number(figure, 4) })]));
}

function whyView(panel) {
  const choices = data.attributions.map(({ method, target }, i) => ({ value: i, label: `${seen(target)} \u00b7 ${seen(method)}` }));
  const picked = choice("Answer", choices, () => state.why, (why) => change({ why }));
  const running = element("p", { className: "why", attributes: { role: "list", "aria-label": "Tokens and their scores" } });
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
  const side = element("aside", { className: "side", attributes: { "aria-label": "Scores in numbers" } }, title, method, list, figures);
  const left = element("div", { className: "left" }, running, element("p", { className: "note", text: "Blue speaks for the answer, orange against it; the deeper, the more." }));
  panel.append(element("div", { className: "controls" }, picked.group), element("div", { className: "split" }, left, side));
  let drawn = "";
  return () => {
    picked.draw();
    const now = `${state.why} ${isDark()}`;
    if (now === drawn) return;
    drawn = now;
    const attribution = data.attributions[state.why];
    const { scores } = attribution;
    const most = Math.max(...scores.map(Math.abs), 1e-12);
    title.textContent = seen(attribution.target);
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
}
