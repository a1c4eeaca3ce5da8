"""Google's `BasicTokenizer`: text into words, knowing for every character where it came from."""

import unicodedata

from keras_bert_rebuild.text.normalization import is_cjk_character, is_control, is_punctuation

# Stands for a character whose form depends on its neighbours. No cleaned text has it.
CONTEXT = "\0"


def normalised(char, cased):
    """What a character becomes, with spaces around it if it is a word of its own; `CONTEXT` if that depends on its neighbours.

    Args:
        char: a character.
        cased: keep case and accents.

    Reference: `BasicTokenizer` in `tokenization.py` of google-research/bert.
    """
    if is_dropped(char):
        return ""
    if _is_white(char):
        return " "
    chars = char
    if not cased:
        decomposed = unicodedata.normalize("NFD", char.lower())
        if char == "Σ" or any(_reorders(c) for c in decomposed):
            return CONTEXT
        chars = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    spaced = "".join(f" {c} " if is_punctuation(c) else c for c in chars)
    return f" {spaced} " if is_cjk_character(char) else spaced


def is_dropped(char):
    """Whether a character leaves no trace: NUL, the replacement character, controls and formats."""
    return char in "\0\ufffd" or is_control(char)


def _is_white(char):
    return char.isspace() or unicodedata.category(char) == "Zs"


def _reorders(char):
    """Whether a character stays and may change places with its neighbours in the canonical order."""
    return unicodedata.combining(char) != 0 and unicodedata.category(char) != "Mn"


def spaced_in_context(text):
    """Uncased text with spaces around words, however its characters depend on each other.

    Returns:
        The string, and for each of its characters the index in the text of the one that it came from, -1 for a space.
    """
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
