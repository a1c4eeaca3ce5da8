"""Google's `BasicTokenizer`: cleans texts and splits them into words, with the source offset of every character."""

import re
import unicodedata

# `tokenization.py` of google-research/bert, `_is_chinese_char`.
CJK_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

# The rules below, for ASCII: words, and single punctuation marks.
_ASCII_WORDS = re.compile(r"[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]")
_ASCII_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))


def split_words(text, cased=False):
    """Normalise a text and split it into words, punctuation marks and CJK characters.

    Args:
        text: any string.
        cased: retain case and accents.

    Returns:
        A list of strings without white space.

    Example:

    >>> split_words("Héllo, 世界!")
    ['hello', ',', '世', '界', '!']

    Reference: `BasicTokenizer` in `tokenization.py` of google-research/bert.
    """
    if text.isascii():
        text = text.translate(_ASCII_CONTROLS)
        return _ASCII_WORDS.findall(text if cased else text.lower())
    if not cased:
        text = strip_accents(text).lower()
    return "".join(_spaced(char) for char in text).split()


def strip_accents(text):
    """The text decomposed, without combining marks."""
    return "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")


def is_punctuation(char):
    """Whether a character is a word by itself: ASCII except letters, digits and spaces, or any Unicode punctuation."""
    code = ord(char)
    return 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126 or unicodedata.category(char)[0] == "P"


def is_cjk_character(char):
    """Whether a character is a CJK ideograph; Hangul, Hiragana and Katakana are not."""
    code = ord(char)
    return any(first <= code <= last for first, last in CJK_BLOCKS)


def is_space(char):
    """Whether a character separates words."""
    return char in " \n\r\t" or unicodedata.category(char) == "Zs"


def is_control(char):
    """Whether a character is dropped: controls and formats except tab and line ends."""
    return char not in "\n\r\t" and unicodedata.category(char) in ("Cc", "Cf")


def _spaced(char):
    if is_punctuation(char) or is_cjk_character(char):
        return f" {char} "
    if is_space(char):
        return " "
    if char in "\0\ufffd" or is_control(char):
        return ""
    return char


# Marks a character whose form depends on its neighbours. Does not occur in cleaned text.
CONTEXT = "\0"


def normalised(char, settings):
    """The form of a character, with spaces around it if it is a word by itself; `CONTEXT` if it depends on its neighbours.

    Args:
        char: a character.
        settings: `WordPieceSettings`.

    Reference: `BasicTokenizer` in `tokenization.py` of google-research/bert.
    """
    if is_dropped(char):
        return ""
    if _is_white(char):
        return " "
    if settings.do_lower_case and char == "Σ":
        return CONTEXT
    chars = char.lower() if settings.do_lower_case else char
    if settings.strips:
        chars = unicodedata.normalize("NFD", chars)
        if any(_reorders(c) for c in chars):
            return CONTEXT
        chars = "".join(c for c in chars if unicodedata.category(c) != "Mn")
    spaced = "".join(f" {c} " if is_punctuation(c) else c for c in chars)
    return f" {spaced} " if settings.tokenize_chinese_chars and is_cjk_character(char) else spaced


def is_dropped(char):
    """Whether a character is dropped: NUL, the replacement character, controls and formats."""
    return char in "\0\ufffd" or is_control(char)


def _is_white(char):
    return char.isspace() or unicodedata.category(char) == "Zs"


def _reorders(char):
    """Whether a character is retained and may be swapped with its neighbours by canonical ordering."""
    return unicodedata.combining(char) != 0 and unicodedata.category(char) != "Mn"


def spaced_in_context(text, settings):
    """Text with spaces around words, for characters whose forms depend on each other.

    Args:
        text: the text between two spaces.
        settings: `WordPieceSettings`.

    Returns:
        The string, and for each of its characters the index of its original in the text, -1 for a space.
    """
    spaced = []
    for token in _tokens(text, settings.tokenize_chinese_chars):
        spaced.append((" ", -1))
        token = _lowered(token) if settings.do_lower_case else token
        for char, origin in _without_accents(token) if settings.strips else token:
            spaced += [(" ", -1), (char, origin), (" ", -1)] if is_punctuation(char) else [(char, origin)]
    return "".join(char for char, _ in spaced), [origin for _, origin in spaced]


def _lowered(token):
    """Lower-cased pairs of character and index, for a whole word: a final sigma has its own form."""
    lowered = "".join(char for char, _ in token).lower()
    origins = [origin for char, origin in token for _ in char.lower()]
    return list(zip(lowered, origins, strict=True))


def _without_accents(token):
    """Decomposed pairs of character and index, in canonical order, without combining marks."""
    decomposed = [(c, origin) for char, origin in token for c in unicodedata.normalize("NFD", char)]
    return [(char, origin) for char, origin in _canonically_ordered(decomposed) if unicodedata.category(char) != "Mn"]


def _tokens(text, splits_cjk):
    """Cleaned text split at white space and, with `splits_cjk`, around CJK characters: lists of (character, index)."""
    tokens, new = [], True
    for i, char in enumerate(text):
        if is_dropped(char):
            continue
        if _is_white(char):
            new = True
            continue
        cjk = splits_cjk and is_cjk_character(char)
        if new or cjk:
            tokens.append([])
        tokens[-1].append((char, i))
        new = cjk
    return tokens


def _canonically_ordered(chars):
    """Consecutive marks sorted by their combining class, as in Unicode's canonical ordering."""
    ordered, marks = [], []
    for item in [*chars, ("", -1)]:
        if item[0] and unicodedata.combining(item[0]):
            marks.append(item)
        else:
            ordered += sorted(marks, key=lambda mark: unicodedata.combining(mark[0]))
            ordered.append(item)
            marks = []
    return ordered[:-1]
