"""ALBERT's text before SentencePiece sees it, knowing for every character where it came from."""

import re
import unicodedata

QUOTES = ("``", "''")

_UNITS = re.compile(r"``|''|\s+|.", re.DOTALL)


def normalized(text, lower, strip_accents):
    """Single spaces, plain quotation marks, and as told without accents and in lower case.

    Reference: `preprocess_text` in `tokenization.py` of google-research/albert, with the quotation marks of
    `preprocess_text` in `prepro_utils.py` of zihangdai/xlnet.
    """
    text = " ".join(text.split())
    for mark in QUOTES:
        text = text.replace(mark, '"')
    if strip_accents and not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return text.lower() if lower else text


def normalized_and_places(text, lower, strip_accents):
    """The same, with the characters of the text that every character came from.

    Returns:
        A string, and for its characters lists of the first and of the one behind the last.
    """
    placed = []
    for unit in _UNITS.finditer(text, len(text) - len(text.lstrip()), len(text.rstrip())):
        char = '"' if unit.group() in QUOTES else " " if unit.group().isspace() else unit.group()
        # Alone a character decomposes as among others, but for the order of the marks that are dropped.
        chars = [c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c)] if strip_accents else [char]
        placed += [(c, unit.start(), unit.end()) for c in chars]
    plain = "".join(c for c, _, _ in placed)
    if not lower:
        return plain, [start for _, start, _ in placed], [stop for _, _, stop in placed]
    # The whole at once, as a sigma at the end of a word has a form of its own; how many characters one becomes does not depend on
    # its neighbours.
    sizes = [len(c.lower()) for c in plain]
    starts = [start for (_, start, _), size in zip(placed, sizes, strict=True) for _ in range(size)]
    stops = [stop for (_, _, stop), size in zip(placed, sizes, strict=True) for _ in range(size)]
    return plain.lower(), starts, stops
