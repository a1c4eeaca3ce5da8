// The map of a head as a picture: queries as rows, keys as columns, darker for more attention.

const tile = document.createElement("canvas");

// Small values would be invisible on a linear scale.
const INK = Uint8ClampedArray.from({ length: 1025 }, (_, i) => 255 * (i / 1024) ** 0.6);

// A picture shows one source, `{ source }`, in the colour of its head, or a difference, `{ from, to }`, in the colours of signs.
function pictureOf(layer, head, { source, from, to }) {
  const begin = mapAt(layer, head);
  if (source !== undefined) {
    const values = mapsOf.get(source);
    return { value: (query, key) => values[begin + query * LENGTH + key], more: palette().heads[head], less: null };
  }
  const [first, second] = [mapsOf.get(from), mapsOf.get(to)];
  const value = (query, key) => second[begin + query * LENGTH + key] - first[begin + query * LENGTH + key];
  return { value, more: palette().positive, less: palette().negative };
}

function drawMap(canvas, layer, head, size, of = { source: state.source }) {
  const ctx = context(canvas, size, size);
  paintMap(ctx, canvas.width, pictureOf(layer, head, of), { left: 0, top: 0, size });
}

// `room`: the number of pixels available; if several values fall on one pixel, the largest counts, so that thin lines remain.
function paintMap(ctx, room, { value, more, less }, { left, top, size }) {
  const { queries, keys } = tokens();
  if (!queries.length || !keys.length) return;
  const [wide, tall] = [Math.min(keys.length, room), Math.min(queries.length, room)];
  const image = new ImageData(wide, tall);
  const pixels = image.data;
  queries.forEach((query, i) => {
    const to = 4 * wide * Math.floor((i * tall) / queries.length);
    for (let j = 0; j < keys.length; j++) {
      const at = to + 4 * Math.floor((j * wide) / keys.length);
      const here = value(query, keys[j]);
      const ink = INK[Math.round(1024 * Math.min(Math.abs(here), 1))];
      if (ink <= pixels[at + 3]) continue;
      const [r, g, b] = here < 0 ? less : more;
      pixels[at] = r;
      pixels[at + 1] = g;
      pixels[at + 2] = b;
      pixels[at + 3] = ink;
    }
  });
  tile.width = wide;
  tile.height = tall;
  tile.getContext("2d").putImageData(image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(tile, left, top, size, size);
}

const LABEL_FONT = "10.5px ui-sans-serif, system-ui, sans-serif";
const LABEL_ROOM = 74; // maximum room for the labels of a map
const LABEL_STEP = 11; // minimum distance of two labels

function cut(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  const characters = [...text];
  while (characters.length > 1 && ctx.measureText(`${characters.join("")}\u2026`).width > room) characters.pop();
  return `${characters.join("")}\u2026`;
}

// A map with the tokens of its rows and columns, every second or third of them if there are many, and the current pair marked.
// Returns the position of the map in the canvas.
function drawLabelledMap(canvas, layer, head, width, of, at) {
  const { queries, keys } = tokens();
  const measure = canvas.getContext("2d");
  measure.font = LABEL_FONT;
  const widest = (places) => Math.min(LABEL_ROOM, Math.max(0, ...places.map((i) => measure.measureText(labels[i]).width))) + 6;
  const area = { left: Math.ceil(widest(queries)), top: Math.ceil(widest(keys)) };
  area.size = width - area.left;
  const ctx = context(canvas, width, area.top + area.size);
  const { soft, ink } = palette();
  ctx.font = LABEL_FONT;
  ctx.textBaseline = "middle";
  const write = (places, current, across) => {
    const cell = area.size / places.length;
    const every = Math.ceil(LABEL_STEP / cell);
    const marked = places.indexOf(current);
    places.forEach((token, i) => {
      const near = marked >= 0 && Math.abs(i - marked) * cell < LABEL_STEP;
      if (i === marked ? false : i % every || near) return;
      const middle = (i + 0.5) * cell;
      ctx.fillStyle = css(i === marked ? ink : soft);
      ctx.save();
      if (across) {
        ctx.translate(area.left + middle, area.top - 5);
        ctx.rotate(-Math.PI / 2);
        ctx.textAlign = "left";
      } else {
        ctx.translate(area.left - 5, area.top + middle);
        ctx.textAlign = "right";
      }
      ctx.fillText(cut(ctx, labels[token], LABEL_ROOM), 0, 0);
      ctx.restore();
    });
  };
  ctx.fillStyle = css(of.source === undefined ? soft : palette().heads[head], 0.06);
  ctx.fillRect(area.left, area.top, area.size, area.size);
  paintMap(ctx, Math.round(area.size * (window.devicePixelRatio || 1)), pictureOf(layer, head, of), area);
  write(queries, at ? at.query : null, false);
  write(keys, at ? at.key : null, true);
  if (at && queries.includes(at.query) && keys.includes(at.key)) {
    const [wide, tall] = [area.size / keys.length, area.size / queries.length];
    ctx.strokeStyle = css(ink);
    ctx.lineWidth = 1.5;
    ctx.strokeRect(area.left + keys.indexOf(at.key) * wide, area.top + queries.indexOf(at.query) * tall, wide, tall);
  }
  Object.assign(canvas.dataset, area);
  return area;
}

// The pair of tokens under the pointer on such a picture.
function pairAt(canvas, area, event) {
  const { queries, keys } = tokens();
  const box = canvas.getBoundingClientRect();
  const query = queries[Math.floor(((event.clientY - box.top - area.top) / area.size) * queries.length)];
  const key = keys[Math.floor(((event.clientX - box.left - area.left) / area.size) * keys.length)];
  return query === undefined || key === undefined ? null : { query, key };
}

// The five patterns with their scores; a notch marks uniform attention.
function patternList() {
  const list = element("ul", { className: "patterns" });
  const rows = data.patterns.names.map((name, i) => {
    const bars = [0, 1].map(() => element("i", { className: "fill" }));
    const notch = element("i", { className: "notch", title: `even attention: ${number(data.patterns.even[i], 2)}` });
    const value = element("b", { className: "value" });
    notch.style.left = `${100 * data.patterns.even[i]}%`;
    const row = element("li", { title: data.patterns.meanings[i] });
    row.append(element("span", { text: name }), element("span", { className: "track" }, ...bars, notch), value);
    list.append(row);
    return { row, bars, value };
  });
  const draw = (layer, head) => {
    const sources = shownSources();
    rows.forEach(({ row, bars, value }, i) => {
      const scores = sources.map((source) => SOURCES[source].scores[i][layer][head]);
      bars.forEach((bar, place) => {
        bar.hidden = place >= scores.length;
        bar.style.width = `${100 * (scores[place] || 0)}%`;
      });
      value.textContent = scores.map((score) => number(score, 2)).join(" \u2192 ");
      row.classList.toggle("named", sources.some((source) => SOURCES[source].named[layer][head].includes(i)));
    });
    list.classList.toggle("two", sources.length > 1);
    list.style.setProperty("--accent", headColour(head));
  };
  return { list, draw };
}
