// Scores by step as curves.

// `series` are { values, colour, width }; the mark is the current step.
function drawCurves(canvas, width, height, series, { mark, pad = 3, grid = false } = {}) {
  const ctx = context(canvas, width, height);
  const steps = SOURCES.map(({ step }) => step);
  const [first, last] = [steps[0], steps[LAST]];
  const across = (i) => pad + ((width - 2 * pad) * (last > first ? (steps[i] - first) / (last - first) : 0.5));
  const top = grid ? 18 : pad; // room for the highest number
  const down = (value) => height - pad - (height - pad - top) * value;
  const { line, soft, ink } = palette();
  if (grid) {
    ctx.font = LABEL_FONT;
    for (const value of [0, 0.5, 1]) {
      ctx.fillStyle = css(line);
      ctx.fillRect(pad, Math.round(down(value)), width - 2 * pad, 1);
      ctx.fillStyle = css(soft);
      ctx.fillText(String(value), pad, down(value) - 4);
    }
  }
  ctx.fillStyle = css(ink, 0.28);
  if (mark !== undefined) ctx.fillRect(across(mark) - 0.5, pad, 1, height - 2 * pad);
  for (const { values, colour, width: thick } of series) {
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
    ctx.lineWidth = thick;
    ctx.lineJoin = "round";
    ctx.beginPath();
    values.forEach((value, i) => (i ? ctx.lineTo(across(i), down(value)) : ctx.moveTo(across(i), down(value))));
    ctx.stroke();
    if (mark === undefined) continue;
    ctx.beginPath();
    ctx.arc(across(mark), down(values[mark]), thick + 1, 0, 2 * Math.PI);
    ctx.fill();
  }
  return { across, down };
}

const scoresByStep = (pattern, layer, head) => SOURCES.map(({ scores }) => scores[pattern][layer][head]);

// When a head began to follow a pattern: the first step from which it is named after it until the last step.
function becameAt(pattern, layer, head) {
  let since = null;
  for (let i = LAST; i >= 0 && SOURCES[i].named[layer][head].includes(pattern); i--) since = i;
  return since;
}

function courseOf(pattern, layer, head) {
  const values = scoresByStep(pattern, layer, head);
  const since = becameAt(pattern, layer, head);
  const from = `${data.patterns.names[pattern]} from ${number(values[0], 2)} to ${number(values[LAST], 2)}`;
  if (since === null) return from;
  return `${from}, ${since ? `named after it since step ${grouped(SOURCES[since].step)}` : "named after it since the first step"}`;
}
