"""Scripts that are written without spaces between words."""

import bisect
import unicodedata

# First and last code points of the blocks: the Unicode Standard, chapters 16 to 18 and `Blocks.txt`. Han has the ranges of BERT's
# BasicTokenizer, and later additions to Unicode.
UNSPACED = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x3005, 0x3007),  # signs of repetition and zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3100, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),  # Bopomofo
    (0x31F0, 0x31FF),  # Katakana
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),  # Han
    (0xA980, 0xA9DF),  # Javanese
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAA7F),  # Myanmar
    (0xAA80, 0xAADF),  # Tai Viet
    (0xF900, 0xFAFF),  # Han
    (0xFF66, 0xFF9F),  # Katakana of half the width
    (0x1AFF0, 0x1B16F),  # Kana
    (0x20000, 0x323AF),  # Han
)
_FIRSTS = [first for first, _ in UNSPACED]


def is_unspaced(character: str) -> bool:
    """Whether a character is of a script that has no spaces between words, such as Han, kana, Thai, Lao, Khmer or Myanmar.

    Example:

    >>> [is_unspaced(character) for character in "京ーก한a"]
    [True, True, True, False, False]
    """
    row = bisect.bisect_right(_FIRSTS, ord(character)) - 1
    return row >= 0 and ord(character) <= UNSPACED[row][1]


def extends_previous(character: str) -> bool:
    """Whether a character is a mark on the one before it, such as a vowel sign, or repeats or lengthens it, such as ー."""
    category = unicodedata.category(character)
    return category.startswith("M") or (category == "Lm" and is_unspaced(character))
