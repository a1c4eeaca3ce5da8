// The map of a head as a picture: queries downwards, keys to the right, the darker the more.

const tile = document.createElement("canvas");

// Small shares would not be seen on a straight scale.
const INK = Uint8ClampedArray.from({ length: 1025 }, (_, i) => 255 * (i / 1024) ** 0.6);

function drawMap(canvas, layer, head, size) {
  const { queries, keys } = tokens();
  const ctx = context(canvas, size, size);
  if (!queries.length || !keys.length) return;
  // As many pixels as the screen has, or fewer; where several shares fall on one, the largest counts: thin lines stay lines.
  const room = canvas.width;
  const [wide, tall] = [Math.min(keys.length, room), Math.min(queries.length, room)];
  const [r, g, b] = palette().heads[head];
  const image = new ImageData(wide, tall);
  const pixels = image.data;
  const begin = mapAt(layer, head);
  queries.forEach((query, i) => {
    const from = begin + query * LENGTH;
    const to = 4 * wide * Math.floor((i * tall) / queries.length);
    for (let j = 0; j < keys.length; j++) {
      const at = to + 4 * Math.floor((j * wide) / keys.length);
      const ink = INK[Math.round(1024 * probabilities[from + keys[j]])];
      if (ink <= pixels[at + 3]) continue;
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
  ctx.drawImage(tile, 0, 0, size, size);
}

// The token pair under a pointer on such a picture.
function pairAt(canvas, event) {
  const { queries, keys } = tokens();
  const box = canvas.getBoundingClientRect();
  const query = queries[Math.floor(((event.clientY - box.top) / box.height) * queries.length)];
  const key = keys[Math.floor(((event.clientX - box.left) / box.width) * keys.length)];
  return query === undefined || key === undefined ? null : { query, key };
}

// The five patterns with their scores; a notch stands where evenly spread attention would be.
function patternList() {
  const list = element("ul", { className: "patterns" });
  const rows = data.patterns.names.map((name, i) => {
    const bar = element("i", { className: "fill" });
    const notch = element("i", { className: "notch", title: `even attention: ${number(data.patterns.even[i], 2)}` });
    const value = element("b", { className: "value" });
    notch.style.left = `${100 * data.patterns.even[i]}%`;
    const row = element("li", { title: data.patterns.meanings[i] });
    row.append(element("span", { text: name }), element("span", { className: "track" }, bar, notch), value);
    list.append(row);
    return { row, bar, value };
  });
  const draw = (layer, head) => {
    rows.forEach(({ row, bar, value }, i) => {
      const score = data.patterns.scores[i][layer][head];
      bar.style.width = `${100 * score}%`;
      value.textContent = number(score, 2);
      row.classList.toggle("named", data.patterns.named[layer][head].includes(i));
    });
    list.style.setProperty("--accent", headColour(head));
  };
  return { list, draw };
}
