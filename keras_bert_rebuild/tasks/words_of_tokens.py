"""The words of a text and their first tokens, also in scripts written without spaces."""

import bisect
import unicodedata
from collections import namedtuple

import numpy as np

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
    """Whether a character belongs to a script without spaces between words, such as Han, kana, Thai, Lao, Khmer or Myanmar.

    Example:

    >>> [is_unspaced(character) for character in "京ーก한a"]
    [True, True, True, False, False]
    """
    row = bisect.bisect_right(_FIRSTS, ord(character)) - 1
    return row >= 0 and ord(character) <= UNSPACED[row][1]


def extends_previous(character: str) -> bool:
    """Whether a character is a mark on the previous one, such as a vowel sign, or repeats or lengthens it, such as ー."""
    category = unicodedata.category(character)
    return category.startswith("M") or (category == "Lm" and is_unspaced(character))


# For every row, the word that each token is the first token of, in the window with the most context, or -1 `(length,)`; for every
# text, its number of words, and the offsets of its words in characters `(words, 2)`, or None for lists of words.
WordsOfTokens = namedtuple("WordsOfTokens", ["first_tokens", "counts", "offsets"])


def words_of_tokens(windows, texts):
    """Find the words of texts, and their first tokens.

    A list of words is used as given. In a text, a word begins at a token after white space, at a punctuation mark and after one, so
    that the comma after a name is a separate word, whatever the tokenizer's own words are. In scripts without spaces, such as Han,
    kana and Thai, it begins at every token, the smallest unit that a model can distinguish. A token of a punctuation mark and
    letters, such as `'s`, is a word in `it's` and part of a word in `l'sofia`.

    Args:
        windows: `Windows` of single texts.
        texts: the texts, or lists of words.
    """
    words_of_texts = WordsOfTokens([], [], [])
    bounds = np.searchsorted(windows.examples, np.arange(len(texts) + 1))
    for number, text in enumerate(texts):
        rows = range(bounds[number], bounds[number + 1])
        if isinstance(text, str):
            words, offsets = words_of_text(windows, rows, text)
        else:
            words, offsets = [windows.word_ids[row] for row in rows], None
        words_of_texts.counts.append(len(text) if offsets is None else len(offsets))
        words_of_texts.offsets.append(offsets)
        last = -1
        for row, row_words in zip(rows, words, strict=True):
            # The first and the second token of a word may have the most context in different windows.
            row_words = np.where(windows.best[row], row_words, -1)
            row_words = _first_ones(np.where(row_words > last, row_words, -1))
            last = max(last, int(row_words.max(initial=-1)))
            words_of_texts.first_tokens.append(row_words)
    return words_of_texts


def words_of_text(windows, rows, text):
    """The word of every token of every row, -1 for tokens outside words, and the offsets of the words `(words, 2)`.

    Args:
        windows: `Windows`, of which only `offsets` and `word_ids` are read; tokens with word -1 are skipped.
        rows: the indices of the rows of the text.
        text: the text.
    """
    word_of, offsets, last = {}, [], None
    pieces = [list(_pieces(windows, row, text)) for row in rows]
    for piece in sorted({piece for row_pieces in pieces for piece in row_pieces if piece is not None}):
        start, end, word = piece
        if offsets and start < offsets[-1][1]:  # bytes of one character, or the marks that one character decomposes into
            offsets[-1][1] = max(offsets[-1][1], end)
        elif offsets and _joined(text, offsets[-1][1], start, word == last[2]):
            if _ends_no_word(text, last, offsets):
                del offsets[-1]
                word_of[last] = len(offsets) - 1
            offsets[-1][1] = end
        else:
            offsets.append([start, end])
        word_of[piece], last = len(offsets) - 1, piece
    words = [np.array([-1 if piece is None else word_of[piece] for piece in row_pieces], "int64") for row_pieces in pieces]
    return words, np.array(offsets, "int64").reshape(-1, 2)


def _joined(text, end, start, same_word):
    """Whether a piece that begins at `start` continues the word that ends at `end`.

    Of the tokenizer's word boundaries, only those between digits and letters count, as in `9pm`: RoBERTa also splits before vowel
    signs of Thai and Devanagari.
    """
    before, after = text[end - 1], text[start]
    if any(character.isspace() for character in text[end:start]) or not (_is_of_word(before) and _is_of_word(after)):
        return False
    if extends_previous(after):
        return True
    is_one_word = same_word or not (before.isnumeric() or after.isnumeric())
    return is_one_word and not (is_unspaced(before) or is_unspaced(after))


def _ends_no_word(text, piece, offsets):
    """Whether the last word is a punctuation mark with letters, such as `'s`, inside a word, as in `l'sofia`."""
    start, end, _ = piece
    mixed = not _is_of_word(text[start]) and _is_of_word(text[end - 1])
    return mixed and offsets[-1][0] == start and len(offsets) > 1 and offsets[-2][1] == start and _is_of_word(text[start - 1])


def _is_of_word(character):
    """Whether it is a letter, a digit or a mark on one, such as the vowel signs of Devanagari; otherwise it is punctuation."""
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _pieces(windows, row, text):
    """For every token its first character, the one after its last, and its word; None for tokens without characters.

    White space that a tokenizer includes in a token is excluded.
    """
    for (start, end), word in zip(windows.offsets[row].tolist(), windows.word_ids[row].tolist(), strict=True):
        piece = text[start:end]
        stripped = piece.lstrip()
        start += len(piece) - len(stripped)
        yield (start, start + len(stripped.rstrip()), word) if word >= 0 and stripped else None


def _first_ones(words):
    """The array with all but the first of equal numbers replaced by -1."""
    _, first = np.unique(words, return_index=True)
    unique = np.full_like(words, -1)
    unique[first] = words[first]
    return unique
