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

const labels = data.tokens.map(shown);
const isSpecial = (i) => data.sentences[i] < 0;
const hasPair = data.sentences.includes(1);

// What the tokenizer cut out of the text, where that is not how the vocabulary writes it.
function described(i) {
  const surface = data.surfaces && data.surfaces[i];
  const parts = [`place ${i}`, `id ${data.ids[i]}`];
  if (surface && surface !== data.tokens[i]) parts.unshift(`\u201c${shown(surface)}\u201d`);
  return parts.join(" \u00b7 ");
}

const FILTERS = [
  { id: "all", label: "All", title: "All tokens", from: null, to: null },
  { id: "aa", label: "A \u2192 A", title: "The first text looks at itself", from: 0, to: 0 },
  { id: "ab", label: "A \u2192 B", title: "The first text looks at the second", from: 0, to: 1 },
  { id: "ba", label: "B \u2192 A", title: "The second text looks at the first", from: 1, to: 0 },
  { id: "bb", label: "B \u2192 B", title: "The second text looks at itself", from: 1, to: 1 },
];

const everyToken = Array.from({ length: LENGTH }, (_, i) => i);
const ofSentence = (sentence) => (sentence === null ? everyToken : everyToken.filter((i) => data.sentences[i] === sentence));
const kept = new Map(FILTERS.map((filter) => [filter.id, { queries: ofSentence(filter.from), keys: ofSentence(filter.to) }]));

// Texts for the head of the page: the surfaces put together would lose the spaces, so tokens are joined as words. Vocabularies mark
// either the piece that begins a word, with \u0120 or \u2581, or those that go on with one.
const marksBegins = labels.some((label) => /^[\u0120\u2581]/.test(label));

function sentenceText(sentence) {
  const words = ofSentence(sentence).map((i) => labels[i]);
  const text = marksBegins ? words.join("").replace(/[\u0120\u2581]/g, " ") : words.join(" ").replace(/ ##/g, "");
  const characters = [...text.trim()];
  return characters.length > 160 ? `${characters.slice(0, 160).join("")}\u2026` : characters.join("");
}

function number(value, digits = 3) {
  return value.toFixed(digits).replace("-", "\u2212");
}
