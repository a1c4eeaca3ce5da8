"""Google's `BasicTokenizer`: text into words, knowing for every character where it came from."""

import re
import unicodedata

from keras_bert_rebuild.text.normalization import is_cjk_character, is_control, is_punctuation

# Stands for a character whose form depends on its neighbours: such a text takes the slow way. No cleaned text has it.
CONTEXT = "\0"

_WORD = re.compile("[^ ]+")


class CharacterTable(dict):
    """From code point to what the character becomes, for `str.translate`; filled as characters turn up.

    Words come out with spaces around them, punctuation marks and CJK characters too.

    Args:
        cased: keep case and accents.
    """

    def __init__(self, cased):
        super().__init__()
        self.cased = cased

    def __missing__(self, code):
        self[code] = value = self._normalise(chr(code))
        return value

    def _normalise(self, char):
        if is_dropped(char):
            return ""
        if _is_white(char):
            return " "
        chars = char
        if not self.cased:
            decomposed = unicodedata.normalize("NFD", char.lower())
            if char == "Σ" or any(_reorders(c) for c in decomposed):
                return CONTEXT
            chars = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        spaced = "".join(f" {c} " if is_punctuation(c) else c for c in chars)
        return f" {spaced} " if is_cjk_character(char) else spaced


def words_of(text, table):
    """The words of a text.

    Args:
        text: any string.
        table: a `CharacterTable`.

    Returns:
        A list of strings.

    Reference: `BasicTokenizer` in `tokenization.py` of google-research/bert.
    """
    spaced = text.translate(table)
    return (_spaced_in_context(text)[0] if CONTEXT in spaced else spaced).split()


def words_and_origins(text, table):
    """The words of a text with, for every character of a word, the index in the text of the character that it came from.

    Returns:
        A list of pairs of a string and a list of int.
    """
    spaced = text.translate(table)
    if CONTEXT in spaced:
        spaced, origins = _spaced_in_context(text)
    else:
        origins = [i for i, char in enumerate(text) for _ in table[ord(char)]]
    return [(match.group(), origins[match.start() : match.end()]) for match in _WORD.finditer(spaced)]


def is_dropped(char):
    """Whether a character leaves no trace: NUL, the replacement character, controls and formats."""
    return char in "\0\ufffd" or is_control(char)


def _is_white(char):
    return char.isspace() or unicodedata.category(char) == "Zs"


def _reorders(char):
    """Whether a character stays and may change places with its neighbours in the canonical order."""
    return unicodedata.combining(char) != 0 and unicodedata.category(char) != "Mn"


def _spaced_in_context(text):
    """Uncased text with spaces around words, a word at a time, and the origin of every character."""
    spaced = []
    for token in _tokens(text):
        lowered = "".join(char for char, _ in token).lower()
        origins = (origin for char, origin in token for _ in char.lower())
        decomposed = [
            (c, origin) for char, origin in zip(lowered, origins, strict=True) for c in unicodedata.normalize("NFD", char)
        ]
        spaced.append((" ", -1))
        for char, origin in _canonically_ordered(decomposed):
            if is_punctuation(char):
                spaced += [(" ", -1), (char, origin), (" ", -1)]
            elif unicodedata.category(char) != "Mn":
                spaced.append((char, origin))
    return "".join(char for char, _ in spaced), [origin for _, origin in spaced]


def _tokens(text):
    """Cleaned text split at white space and around CJK characters: lists of (character, index)."""
    tokens, new = [], True
    for i, char in enumerate(text):
        if is_dropped(char):
            continue
        if _is_white(char):
            new = True
            continue
        cjk = is_cjk_character(char)
        if new or cjk:
            tokens.append([])
        tokens[-1].append((char, i))
        new = cjk
    return tokens


def _canonically_ordered(chars):
    """Runs of marks sorted by their combining class, as in Unicode's canonical ordering."""
    ordered, run = [], []
    for item in [*chars, ("", -1)]:
        if item[0] and unicodedata.combining(item[0]):
            run.append(item)
        else:
            ordered += sorted(run, key=lambda mark: unicodedata.combining(mark[0]))
            ordered.append(item)
            run = []
    return ordered[:-1]
