// How tokens are displayed, and which of them pass the sentence filter.

// Invisible characters, and those that would reverse the line, are shown by their symbol or code point.
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

// A token is shown by its characters in the text; a piece that continues a word begins with ##, as in BERT's vocabulary.
function labelOf(token, i) {
  const surface = data.surfaces ? data.surfaces[i].trim() : "";
  return surface === "" ? shown(token) : `${data.continues[i] ? "##" : ""}${shown(surface)}`;
}

const labels = data.tokens.map(labelOf);
const isSpecial = (i) => data.sentences[i] < 0;
const hasPair = data.sentences.includes(1);

// The position, id and, if different from what is shown, the vocabulary's spelling of a token.
function described(i) {
  const parts = [`position ${i}`];
  if (data.ids[i] >= 0) parts.push(`id ${data.ids[i]}`); // a common piece of two models has no id
  if (shown(data.tokens[i]) !== labels[i]) parts.unshift(`\u201c${shown(data.tokens[i])}\u201d in the vocabulary`);
  return parts.join(" \u00b7 ");
}

const FILTERS = [
  { id: "all", label: "All", title: "All tokens", from: null, to: null },
  { id: "aa", label: "1 \u2192 1", title: "The first text attends to itself", from: 0, to: 0 },
  { id: "ab", label: "1 \u2192 2", title: "The first text attends to the second", from: 0, to: 1 },
  { id: "ba", label: "2 \u2192 1", title: "The second text attends to the first", from: 1, to: 0 },
  { id: "bb", label: "2 \u2192 2", title: "The second text attends to itself", from: 1, to: 1 },
];

const everyToken = Array.from({ length: LENGTH }, (_, i) => i);
const ofSentence = (sentence) => (sentence === null ? everyToken : everyToken.filter((i) => data.sentences[i] === sentence));
const kept = new Map(FILTERS.map((filter) => [filter.id, { queries: ofSentence(filter.from), keys: ofSentence(filter.to) }]));

// Texts for the heading of the page: the original ones, or tokens joined to words. Vocabularies mark either pieces that begin a word,
// with \u0120 or \u2581, or those that continue one.
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

// Always 12,000: the separators of the user's locale would differ from page to page.
const grouped = (value) => value.toLocaleString("en");
