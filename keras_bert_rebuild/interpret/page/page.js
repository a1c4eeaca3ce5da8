const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;

/* An element with text, never HTML: what a text says stays text. */
function make(tag, settings = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) {
    if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/* What a reader would not see is named: control characters and marks of direction. */
function visible(text) {
  const named = text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|[\ud800-\udfff]/gu, (character) => {
    return "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0");
  });
  return named === "" ? "\u00a0" : named;
}

function percent(share) {
  if (share >= 0.0995) return Math.round(share * 100) + " %";
  if (share >= 0.00095) return (share * 100).toFixed(1) + " %";
  return "< 0.1 %";
}

const themeButton = document.getElementById("theme");
function setTheme(dark) {
  root.dataset.theme = dark ? "dark" : "light";
  themeButton.textContent = dark ? "Light" : "Dark";
}
themeButton.addEventListener("click", () => setTheme(root.dataset.theme !== "dark"));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
