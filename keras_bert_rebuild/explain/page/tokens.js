// How tokens are shown, and which of them the sentence filter leaves.

// Characters that cannot be seen, or that would turn the line around, are shown by their symbol or number.
function shown(text) {
  let out = "";
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code < 32) out += String.fromCodePoint(0x2400 + code);
    else if (code === 127) out += "\u2421";
    else if (code === 32) out += "\u2423";
    else if (/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(character) && code !== 0x200d && code !== 0xfe0f) {
      out += `\u2039${code.toString(16).toUpperCase().padStart(4, "0")}\u203a`;
    } else out += character;
  }
  return out === "" ? "\u2205" : out;
}

// A token is shown by the user's own characters; a piece that goes on with a word begins with ##, as in BERT's vocabulary.
function labelOf(token, i) {
  const surface = data.surfaces ? data.surfaces[i].trim() : "";
  return surface === "" ? shown(token) : `${data.continues[i] ? "##" : ""}${shown(surface)}`;
}

const labels = data.tokens.map(labelOf);
const isSpecial = (i) => data.sentences[i] < 0;
const hasPair = data.sentences.includes(1);

// How the vocabulary writes a token, where that is not what is shown.
function described(i) {
  const parts = [`place ${i}`];
  if (data.ids[i] >= 0) parts.push(`id ${data.ids[i]}`); // a piece of two models has none
  if (shown(data.tokens[i]) !== labels[i]) parts.unshift(`\u201c${shown(data.tokens[i])}\u201d in the vocabulary`);
  return parts.join(" \u00b7 ");
}

const FILTERS = [
  { id: "all", label: "All", title: "All tokens", from: null, to: null },
  { id: "aa", label: "1 \u2192 1", title: "The first text looks at itself", from: 0, to: 0 },
  { id: "ab", label: "1 \u2192 2", title: "The first text looks at the second", from: 0, to: 1 },
  { id: "ba", label: "2 \u2192 1", title: "The second text looks at the first", from: 1, to: 0 },
  { id: "bb", label: "2 \u2192 2", title: "The second text looks at itself", from: 1, to: 1 },
];

const everyToken = Array.from({ length: LENGTH }, (_, i) => i);
const ofSentence = (sentence) => (sentence === null ? everyToken : everyToken.filter((i) => data.sentences[i] === sentence));
const kept = new Map(FILTERS.map((filter) => [filter.id, { queries: ofSentence(filter.from), keys: ofSentence(filter.to) }]));

// Texts for the head of the page: the user's own, or tokens joined as words. Vocabularies mark either the piece that begins a word,
// with \u0120 or \u2581, or those that go on with one.
const marksBegins = data.tokens.some((token) => /^[\u0120\u2581]/.test(token));
const seen = (text) => shown(text).replaceAll("\u2423", " ");

function joinedTokens(sentence) {
  const words = ofSentence(sentence).map((i) => shown(data.tokens[i]));
  return marksBegins ? words.join("").replace(/[\u0120\u2581]/g, " ") : words.join(" ").replace(/ ##/g, "");
}

function sentenceText(sentence) {
  const text = data.texts ? seen(data.texts[sentence]) : joinedTokens(sentence);
  const characters = [...text.trim()];
  return characters.length > 160 ? `${characters.slice(0, 160).join("")}\u2026` : characters.join("");
}

function number(value, digits = 3) {
  return value.toFixed(digits).replace("-", "\u2212");
}

// Counted in the user's language of numbers would differ from page to page: always 12,000.
const grouped = (value) => value.toLocaleString("en");
