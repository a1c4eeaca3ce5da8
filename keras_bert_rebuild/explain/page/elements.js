// Elements, canvases and keyboard. Text enters the page only here, and only as text.

function element(tag, { text, attributes = {}, ...properties } = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function tokenElement(i, properties = {}) {
  const made = element("span", { className: "token", ...properties });
  made.dir = "auto";
  made.textContent = labels[i];
  if (isSpecial(i)) made.classList.add("special");
  return made;
}

// A canvas of the given size in CSS pixels, sharp on every screen.
function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const made = canvas.getContext("2d");
  made.setTransform(ratio, 0, 0, ratio, 0, 0);
  made.clearRect(0, 0, width, height);
  return made;
}

// One tab stop for a group; arrows, Home and End move within it. `columns` makes it a grid.
function roving(group, { columns = () => 1, vertical = true, onMove = () => {} } = {}) {
  const items = () => [...group.querySelectorAll("[data-item]")].filter((item) => !item.disabled && !item.hidden);
  const settle = () => {
    const all = items();
    const wanted = all.find((item) => item.dataset.current === "true") || all[0];
    for (const item of all) item.tabIndex = item === wanted ? 0 : -1;
  };
  group.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const across = columns();
    const steps = {
      ArrowRight: across > 1 || !vertical ? 1 : null,
      ArrowLeft: across > 1 || !vertical ? -1 : null,
      ArrowDown: across > 1 ? across : 1,
      ArrowUp: across > 1 ? -across : -1,
      Home: -at,
      End: all.length - 1 - at,
    };
    const step = steps[event.key];
    if (step === undefined || step === null) return;
    const next = all[at + step];
    event.preventDefault();
    if (!next) return;
    for (const item of all) item.tabIndex = item === next ? 0 : -1;
    next.focus();
    onMove(next);
  });
  settle();
  return settle;
}

// Rows of equal height, so that pictures next to them can be aligned.
const ROW_HEIGHTS = [[24, 28], [60, 24], [160, 21], [Infinity, 18]];
const rowHeight = (count) => ROW_HEIGHTS.find(([most]) => count <= most)[1];

function say(text) {
  document.getElementById("spoken").textContent = text;
}
