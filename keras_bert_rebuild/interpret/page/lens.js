const depths = data.depths.length, length = data.tokens.length;
const first = data.masked.indexOf(true);
const chosen = { depth: depths - 1, position: first >= 0 ? first : Math.min(1, length - 1) };

/* What the colour of a cell may say, each from 0 to 1. */
const COLOURS = [
  ["likeliest token's probability", (depth, at) => data.top[depth][at][0][1]],
  ["answer's rank", (depth, at) => 1 / (1 + Math.log2(data.final_ranks[depth][at]))],
  ["true token's rank", (depth, at) => (data.true_ranks[depth][at] === null ? 0 : 1 / (1 + Math.log2(data.true_ranks[depth][at])))],
  ["closeness to the answer", (depth, at) => Math.exp(-data.divergences[depth][at])],
];
let colour = 0;

document.getElementById("text").textContent = visible(data.name ? data.name + ": " + data.text : data.text);

const choice = document.getElementById("colours");
COLOURS.forEach(([name], number) => {
  const button = make("button", { type: "button", "aria-pressed": String(number === colour) }, name);
  button.addEventListener("click", () => {
    colour = number;
    [...choice.querySelectorAll("button")].forEach((other, i) => other.setAttribute("aria-pressed", String(i === number)));
    paint();
  });
  choice.append(button);
});

const cells = data.tokens.map(() => []);
const table = document.getElementById("lens");
table.append(make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "text"), ...data.depths.map((name) => make("th", { scope: "col" }, name)))));
const body = make("tbody");
data.tokens.forEach((token, at) => {
  const kind = data.masked[at] ? "masked" : data.words[at] === "" ? "special" : "";
  const row = make("tr", {}, make("th", { scope: "row", class: kind }, make("span", { class: "token" }, visible(data.words[at] || token))));
  for (let depth = 0; depth < depths; depth++) {
    const [said, share] = data.top[depth][at][0];
    const inner = make("span", { class: "token", tabIndex: -1, title: visible(said) + " " + percent(share) }, visible(said));
    inner.addEventListener("click", () => choose(depth, at, true));
    inner.addEventListener("keydown", (event) => move(event, depth, at));
    cells[at].push(inner);
    row.append(make("td", { class: said === data.final_tokens[at] ? "final" : "" }, inner));
  }
  body.append(row);
});
table.append(body);

function paint() {
  for (let at = 0; at < length; at++) {
    for (let depth = 0; depth < depths; depth++) cells[at][depth].style.setProperty("--share", COLOURS[colour][1](depth, at).toFixed(3));
  }
}

const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-depths, 0], End: [depths, 0] };
function move(event, depth, at) {
  const step = KEYS[event.key];
  if (!step) return;
  event.preventDefault();
  const within = (value, count) => Math.max(0, Math.min(count - 1, value));
  choose(within(depth + step[0], depths), within(at + step[1], length), true);
}

function choose(depth, at, focus) {
  const before = cells[chosen.position][chosen.depth];
  before.tabIndex = -1;
  before.parentElement.classList.remove("chosen");
  chosen.depth = depth;
  chosen.position = at;
  const inner = cells[at][depth];
  inner.tabIndex = 0;
  inner.parentElement.classList.add("chosen");
  if (focus) inner.focus();
  tell(depth, at);
}

function tell(depth, at) {
  const shares = data.top[depth][at].map(([said, share]) => {
    const fill = make("span", { class: "fill" });
    fill.style.width = (share * 100).toFixed(1) + "%";
    return make("li", {}, make("span", { class: "token", title: visible(said) }, visible(said)), make("span", { class: "track" }, fill), make("span", { class: "value" }, percent(share)));
  });
  const facts = [["rank of the answer, " + visible(data.final_tokens[at]), data.final_ranks[depth][at].toLocaleString("en")]];
  if (data.true_tokens[at] !== null) facts.push(["rank of the true token, " + visible(data.true_tokens[at]), data.true_ranks[depth][at].toLocaleString("en")]);
  facts.push(["divergence from the answer, nats", data.divergences[depth][at].toFixed(3)]);
  const ranks = data.final_ranks.map((of_depth, other) => {
    const bar = make("span", { class: other === depth ? "chosen" : "" });
    bar.style.height = Math.max(4, 100 / (1 + Math.log2(of_depth[at]))) + "%";
    return bar;
  });
  const spoken = data.depths.map((name, other) => name + " " + data.final_ranks[other][at]).join(", ");
  document.getElementById("side").replaceChildren(
    make("h2", {}, make("span", { class: "token" }, visible(data.words[at] || data.tokens[at])), " after " + data.depths[depth]),
    make("ol", { class: "shares", "aria-label": "Likeliest tokens" }, ...shares),
    make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    make("p", { class: "note" }, "Rank of the answer, block by block; a full bar is rank 1."),
    make("div", { class: "ranks", role: "img", "aria-label": "Rank of the answer: " + spoken }, ...ranks),
  );
}

paint();
choose(chosen.depth, chosen.position, false);
cells[chosen.position][chosen.depth].scrollIntoView({ block: "nearest", inline: "nearest" });
root.dataset.ready = "yes";
