"""Which token answers for which word."""

import unicodedata
from collections import namedtuple

import numpy as np

from keras_bert_rebuild.text.unspaced_scripts import goes_with_the_one_before, is_unspaced

# For every row the word that a token begins, or -1 `(length,)`, where no other window shows more around it; for every text how many
# words it has, and for texts that are not lists of words the places of their words in characters `(words, 2)`, else None.
WordsOfTokens = namedtuple("WordsOfTokens", ["heads", "counts", "places"])


def words_of_tokens(windows, texts):
    """Find the words of texts, and their first tokens.

    In a list of words these are the words. In a text, a word begins at a token behind white space and at one that begins or follows
    a sign, so that the comma behind a name is not part of it, whatever the tokenizer takes for words. In scripts without spaces,
    such as Han, kana and Thai, it begins at every token: there is nothing smaller that a model could tell apart. A token of a sign
    and letters, such as `'s`, is a word in `it's` and a part of one in `l'sofia`.

    Args:
        windows: `Windows` over single texts.
        texts: the texts, or lists of words.
    """
    found = WordsOfTokens([], [], [])
    bounds = np.searchsorted(windows.examples, np.arange(len(texts) + 1))
    for number, text in enumerate(texts):
        rows = range(bounds[number], bounds[number + 1])
        if isinstance(text, str):
            words, places = _words_of_text(windows, rows, text)
        else:
            words, places = [windows.word_ids[row] for row in rows], None
        found.counts.append(len(text) if places is None else len(places))
        found.places.append(places)
        seen = -1
        for row, of_row in zip(rows, words, strict=True):
            # The first token of a word may be shown best in another window than its second.
            of_row = np.where(windows.best[row], of_row, -1)
            of_row = _first_ones(np.where(of_row > seen, of_row, -1))
            seen = max(seen, int(of_row.max(initial=-1)))
            found.heads.append(of_row)
    return found


def _words_of_text(windows, rows, text):
    """The word of every token of every row, and the places of the words."""
    number_of, places, last = {}, [], None
    pieces = [list(_pieces(windows, row, text)) for row in rows]
    for piece in sorted({piece for of_row in pieces for piece in of_row if piece is not None}):
        start, end, word = piece
        if places and start < places[-1][1]:  # bytes of one character, or signs that a character stands for
            places[-1][1] = max(places[-1][1], end)
        elif places and _joined(text, places[-1][1], start, word == last[2]):
            if _ends_no_word(text, last, places):
                del places[-1]
                number_of[last] = len(places) - 1
            places[-1][1] = end
        else:
            places.append([start, end])
        number_of[piece], last = len(places) - 1, piece
    words = [np.array([-1 if piece is None else number_of[piece] for piece in of_row], "int64") for of_row in pieces]
    return words, np.array(places, "int64").reshape(-1, 2)


def _joined(text, end, start, same_word):
    """Whether a piece that begins at `start` goes on with the word that ends at `end`.

    Of the words of the tokenizer, those count that divide figures from letters, as in `9pm`, and no others: RoBERTa's end at the
    vowel signs of Thai and Devanagari, too.
    """
    before, behind = text[end - 1], text[start]
    if any(character.isspace() for character in text[end:start]) or not (_is_of_word(before) and _is_of_word(behind)):
        return False
    if goes_with_the_one_before(behind):
        return True
    in_one = same_word or not (before.isnumeric() or behind.isnumeric())
    return in_one and not (is_unspaced(before) or is_unspaced(behind))


def _ends_no_word(text, piece, places):
    """Whether the last word is a piece of a sign and letters, such as `'s`, that is inside of a word, as in `l'sofia`."""
    start, end, _ = piece
    mixed = not _is_of_word(text[start]) and _is_of_word(text[end - 1])
    return mixed and places[-1][0] == start and len(places) > 1 and places[-2][1] == start and _is_of_word(text[start - 1])


def _is_of_word(character):
    """Whether it is a letter, a digit or a mark on one, such as the vowel signs of Devanagari; else it is a sign."""
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _pieces(windows, row, text):
    """For every token its first character, the one behind its last and its word; None for one without characters.

    White space that a tokenizer counts to a token is left out.
    """
    for (start, end), word in zip(windows.offsets[row].tolist(), windows.word_ids[row].tolist(), strict=True):
        piece = text[start:end]
        stripped = piece.lstrip()
        start += len(piece) - len(stripped)
        yield (start, start + len(stripped.rstrip()), word) if word >= 0 and stripped else None


def _first_ones(words):
    """The same with -1 where a number was there before."""
    _, first = np.unique(words, return_index=True)
    kept = np.full_like(words, -1)
    kept[first] = words[first]
    return kept
