// Head view: lines from token to token, for one layer and any of its heads, of one source or of two side by side.

function headView(panel) {
  const layer = layerChoice();
  const order = orderChoice();
  const stages = SOURCES.length > 1 ? [headStage(0), headStage(1)] : [headStage(0)];
  scrollTogether(stages);
  const heads = headList();
  const numbers = reading();
  const all = element("button", { type: "button", className: "quiet", text: "All" });
  const none = element("button", { type: "button", className: "quiet", text: "None" });
  all.addEventListener("click", () => change({ heads: new Set(data.heads.keys()) }));
  none.addEventListener("click", () => change({ heads: new Set() }));
  const side = element("aside", { className: "side", attributes: { "aria-label": "Heads, and shares in numbers" } });
  side.append(element("div", { className: "row-title" }, element("h2", { text: "Heads" }), all, none), heads.list, numbers.box);
  const left = element("div", { className: "left stages" }, ...stages.map(({ box }) => box));
  panel.append(element("div", { className: "controls" }, layer.group, order.group), element("div", { className: "split" }, left, side));
  return () => {
    left.classList.toggle("two", shownSources().length > 1);
    layer.draw();
    order.draw();
    heads.draw();
    numbers.draw();
    for (const stage of stages) stage.draw();
  };
}
