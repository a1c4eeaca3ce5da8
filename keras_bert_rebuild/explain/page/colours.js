// A colour per head, and two for signs, as [r, g, b] for pixels and as text for lines.

function fromOklch(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((v) => {
    const gamma = v <= 0.0031308 ? 12.92 * v : 1.055 * Math.max(v, 0) ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(Math.max(gamma, 0), 1));
  });
}

const darkWanted = window.matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkWanted.matches);

const palettes = new Map();
function palette() {
  const dark = isDark();
  if (!palettes.has(dark)) {
    const lightness = dark ? 0.76 : 0.52;
    // Around the colour circle from blue, so that the first heads have calm colours and neighbours have similar ones.
    const heads = data.heads.map((_, i) => fromOklch(lightness, dark ? 0.125 : 0.15, 255 + (360 * i) / Math.max(HEADS, 5)));
    const rgb = (hue, chroma) => fromOklch(lightness, chroma, hue);
    palettes.set(dark, {
      heads,
      positive: rgb(255, dark ? 0.12 : 0.15),
      negative: rgb(48, dark ? 0.12 : 0.14),
      parts: [rgb(255, 0.12), rgb(150, 0.11), rgb(75, 0.12)],
      ink: dark ? [232, 230, 225] : [34, 33, 31],
      soft: dark ? [150, 147, 140] : [128, 124, 116],
      line: dark ? [62, 60, 57] : [222, 218, 209],
    });
  }
  return palettes.get(dark);
}

const css = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;
const headColour = (head, alpha = 1) => css(palette().heads[head], alpha);
