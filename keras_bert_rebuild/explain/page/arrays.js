// Unpack the arrays of explain/page_arrays.py to Float32Array.

const dataElement = document.getElementById("data");
const data = JSON.parse(dataElement.textContent);
dataElement.remove(); // free megabytes that are not read again

const unpacked = new Map();

async function inflated(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The values of all half-precision numbers.
let halves = null;
function halfValues() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let code = 0; code < 65536; code++) {
    const sign = code & 0x8000 ? -1 : 1;
    const exponent = (code >> 10) & 31;
    const fraction = code & 1023;
    halves[code] = sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  }
  return halves;
}

async function unpack(packed) {
  const bytes = await inflated(packed.data);
  const size = packed.shape.reduce((a, b) => a * b, 1);
  const values = new Float32Array(size);
  if (packed.precision === "root8" || packed.precision === "root5") {
    const most = packed.precision === "root8" ? 255 : 31;
    const table = Float32Array.from({ length: 256 }, (_, code) => (code / most) ** 2);
    for (let i = 0; i < size; i++) values[i] = table[bytes[i]];
  } else if (packed.precision === "uint16") {
    for (let i = 0; i < size; i++) values[i] = (bytes[i] + 256 * bytes[size + i]) / 65535;
  } else if (packed.precision === "float16") {
    const table = halfValues();
    for (let i = 0; i < size; i++) values[i] = table[bytes[i] + 256 * bytes[size + i]];
  } else if (packed.precision === "int8") {
    const scales = await unpack(packed.scales);
    const signed = new Int8Array(bytes.buffer);
    const width = packed.shape[packed.shape.length - 1];
    for (let i = 0; i < size; i++) values[i] = signed[i] * scales[Math.floor(i / width)];
  } else {
    const whole = new DataView(values.buffer);
    for (let i = 0; i < size; i++) {
      for (let byte = 0; byte < 4; byte++) whole.setUint8(4 * i + byte, bytes[byte * size + i]);
    }
    for (let i = 0; i < size; i++) values[i] = whole.getFloat32(4 * i, true);
  }
  return values;
}

// The array of a name, unpacked on first use.
function array(name) {
  if (!unpacked.has(name)) {
    const packed = data.arrays[name];
    unpacked.set(name, unpack(packed).then((values) => {
      packed.data = ""; // the text is no longer needed
      return values;
    }));
  }
  return unpacked.get(name);
}

const LENGTH = data.tokens.length;
const LAYERS = data.layers.length;
const HEADS = data.heads.length;

// A source is a model, or a run at one of its checkpoints. Its maps are unpacked before anything of it is drawn.
const SOURCES = data.sources;
const IS_TRAINING = SOURCES[0].step !== null;
const ARE_MODELS = !IS_TRAINING && SOURCES.length === 2;
const KEPT = 6; // maximum number of sources whose maps are unpacked: those of a long run would fill the memory
const mapsOf = new Map();

async function loadMaps(source) {
  const found = mapsOf.get(source) || (await unpack(data.arrays[`probabilities${SOURCES[source].suffix}`]));
  mapsOf.delete(source);
  mapsOf.set(source, found); // most recently used last
  for (const old of mapsOf.keys()) {
    if (mapsOf.size <= KEPT) break;
    if (old !== source && old !== state.source && old !== state.held) mapsOf.delete(old);
  }
}

// Offset of a head's map; layer and head are indices into data.layers and data.heads.
const mapAt = (layer, head) => (layer * HEADS + head) * LENGTH * LENGTH;
const share = (layer, head, query, key, source = state.source) => mapsOf.get(source)[mapAt(layer, head) + query * LENGTH + key];
