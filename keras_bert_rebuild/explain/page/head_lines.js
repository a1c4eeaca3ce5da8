// Lines from queries to keys on a canvas that stays in place while the tokens scroll.

const LEAST = 0.02; // fainter lines are invisible
const STEPS = 12; // levels of strength: all lines of a level are one path, which makes thousands of lines fast

const CELL = 10; // maximum size of a head's square next to a key

function cellWidth(heads) {
  return Math.min(CELL, Math.floor(84 / Math.max(heads, 1)));
}

function drawLines(canvas, source, { width, height, scroll, row, queries, keys }) {
  const probabilities = mapsOf.get(source);
  const ctx = context(canvas, width, height);
  const heads = [...state.heads].sort((a, b) => a - b);
  const cell = cellWidth(heads.length);
  const right = width - (cell * heads.length + 8);
  const centre = (place) => place * row + row / 2 - scroll;
  const about = looked();
  const byKey = about && about.side === "key";
  const bend = right * 0.42;
  const least = about ? 0.004 : heads.length > 3 ? 3 * LEAST : LEAST;
  // Next to each other, since on top of each other one colour would hide the others.
  const apart = Math.min(1.6, (row - 8) / heads.length);
  heads.forEach((head, place) => {
    const aside = (place - (heads.length - 1) / 2) * apart;
    const paths = Array.from({ length: STEPS + 1 }, () => null);
    const begin = mapAt(state.layer, head);
    queries.forEach((query, i) => {
      if (about && !byKey && query !== about.token) return;
      const y = centre(i) + aside;
      keys.forEach((key, j) => {
        if (byKey && key !== about.token) return;
        const value = probabilities[begin + query * LENGTH + key];
        if (value < least) return;
        const end = centre(j) + aside;
        if (Math.max(y, end) < -20 || Math.min(y, end) > height + 20) return;
        const step = Math.ceil(value * STEPS);
        const path = (paths[step] = paths[step] || new Path2D());
        path.moveTo(0, y);
        path.bezierCurveTo(bend, y, right - bend, end, right, end);
      });
    });
    paths.forEach((path, step) => {
      if (!path) return;
      const strength = step / STEPS;
      ctx.strokeStyle = headColour(head, 0.1 + 0.8 * strength ** 0.9);
      ctx.lineWidth = 0.75 + 1.75 * strength;
      ctx.stroke(path);
    });
  });
  drawCells(ctx, source, { heads, cell, right, centre, row, keys, about, height });
}

// Next to every key a square per head: the attention of the current query to it.
function drawCells(ctx, source, { heads, cell, right, centre, row, keys, about, height }) {
  if (!about || about.side !== "query") return;
  keys.forEach((key, j) => {
    const y = centre(j);
    if (y < -row || y > height + row) return;
    heads.forEach((head, i) => {
      const value = share(state.layer, head, about.token, key, source);
      if (value < 0.002) return;
      ctx.fillStyle = headColour(head, Math.min(0.08 + value ** 0.6, 1));
      ctx.fillRect(right + 5 + i * cell, y - row / 2 + 3, cell - 1.5, row - 6);
    });
  });
}
