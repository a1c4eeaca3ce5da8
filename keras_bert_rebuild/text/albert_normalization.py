"""ALBERT's normalisation of text before SentencePiece, with the offsets of every character in the original."""

import re
import unicodedata

QUOTES = ("``", "''")

_UNITS = re.compile(r"``|''|\s+|.", re.DOTALL)


def normalized(text, lower, strip_accents):
    """The text with single spaces and plain quotation marks, optionally without accents and in lower case.

    Reference: `preprocess_text` in `tokenization.py` of google-research/albert, with the quotation marks of
    `preprocess_text` in `prepro_utils.py` of zihangdai/xlnet.
    """
    text = " ".join(text.split())
    for mark in QUOTES:
        text = text.replace(mark, '"')
    if strip_accents and not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return text.lower() if lower else text


def normalized_with_offsets(text, lower, strip_accents):
    """The text as from `normalized`, with the offsets of every character in the original.

    Returns:
        A string, and for its characters a list of the first characters of the original and one of those after the last.
    """
    placed = []
    for unit in _UNITS.finditer(text, len(text) - len(text.lstrip()), len(text.rstrip())):
        char = '"' if unit.group() in QUOTES else " " if unit.group().isspace() else unit.group()
        # A character alone decomposes as among others, except for the order of the marks, which are dropped.
        chars = [c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c)] if strip_accents else [char]
        placed += [(c, unit.start(), unit.end()) for c in chars]
    plain = "".join(c for c, _, _ in placed)
    if not lower:
        return plain, [start for _, start, _ in placed], [stop for _, _, stop in placed]
    # All characters at once, since a sigma at the end of a word has its own form; the number of characters that one becomes does
    # not depend on its neighbours.
    sizes = [len(c.lower()) for c in plain]
    starts = [start for (_, start, _), size in zip(placed, sizes, strict=True) for _ in range(size)]
    stops = [stop for (_, _, stop), size in zip(placed, sizes, strict=True) for _ in range(size)]
    return plain.lower(), starts, stops
