"""Text cleaned and split into words as by Google's `BasicTokenizer`."""

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

# The rules below for ASCII: words, and single punctuation marks.
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
    """Whether a character is a word of its own: ASCII except letters, digits and spaces, or any Unicode punctuation."""
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
