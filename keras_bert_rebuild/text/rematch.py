"""Offsets of tokens in the original text, found by aligning the two."""

from collections.abc import Sequence

import numpy as np

from keras_bert_rebuild.text.normalization import is_space
from keras_bert_rebuild.text.vocabulary import TOKEN_UNK

DIAGONAL, SKIP_TEXT, SKIP_DECODED = range(3)


def rematch(text: str, tokens: Sequence[str], cased: bool = False, unknown_token: str = TOKEN_UNK) -> list[tuple[int, int]]:
    """Find the span of every token in a text.

    Args:
        text: the original text.
        tokens: its tokens; unknown ones may be `unknown_token`.
        cased: compare case.
        unknown_token: the token for unknown text.

    Returns:
        A list of `(start, stop)` in characters of `text`, one for every token; special tokens get empty spans.

    Example:

    >>> rematch("All rights reserved.", ["all", "rights", "re", "##ser", "##ved", "."])
    [(0, 3), (4, 10), (11, 13), (13, 16), (16, 19), (19, 20)]
    >>> rematch("  吃了吗？    ", ["吃", "了", "吗", "？"])
    [(2, 3), (3, 4), (4, 5), (5, 6)]
    """
    decoded, spans = _decode(tokens, cased, unknown_token)
    text = text.rstrip()
    leading = next((i for i, char in enumerate(text) if not is_space(char)), 0)
    text = text[leading:]
    boundaries = _align([char if cased else char.lower() for char in text], decoded)
    matched = [[boundaries[start], boundaries[stop]] for start, stop in spans]
    _repair(text, tokens, matched, cased)
    return [(start + leading, stop + leading) for start, stop in matched]


def _decode(tokens, cased, unknown_token):
    """The text that the tokens form, and the span of each in it."""
    decoded, spans = "", []
    for token in tokens:
        piece = _bare("#" if token == unknown_token else token, cased)
        continues = len(token) > 2 and token.startswith("##")
        if decoded and not continues:
            decoded += " "
        spans.append((len(decoded), len(decoded) + len(piece)))
        decoded += piece
    return decoded, spans


def _bare(token, cased):
    token = token if cased else token.lower()
    return token[2:] if len(token) > 2 and token.startswith("##") else token


def _align(chars, decoded):
    """For every boundary between characters of `decoded`, the boundary in `chars` by the smallest edit distance.

    Reference: Wagner and Fischer, 1974.
    """
    rows, columns = len(chars) + 1, len(decoded) + 1
    moves = np.zeros((rows, columns), "uint8")
    previous = list(range(columns))
    for i in range(1, rows):
        current = [i] + [0] * (columns - 1)
        for j in range(1, columns):
            cost, move = previous[j - 1], DIAGONAL
            if chars[i - 1] != decoded[j - 1]:
                cost += 1
                if previous[j] + 1 < cost:
                    cost, move = previous[j] + 1, SKIP_TEXT
                if current[j - 1] + 1 < cost:
                    cost, move = current[j - 1] + 1, SKIP_DECODED
            current[j] = cost
            moves[i, j] = move
        previous = current
    boundaries = [0] * columns
    i, j = rows - 1, columns - 1
    boundaries[j] = i
    while i > 0 and j > 0:
        move = int(moves[i, j])
        i, j = i - (move != SKIP_DECODED), j - (move != SKIP_TEXT)
        boundaries[j] = i
    return boundaries


def _repair(text, tokens, spans, cased):
    """Extend every span that differs from its token up to its neighbours and to white space, in place."""
    for k, (token, span) in enumerate(zip(tokens, spans, strict=True)):
        start, stop = span
        found = text[start:stop] if cased else text[start:stop].lower()
        if found == _bare(token, cased):
            continue
        first = spans[k - 1][1] if k else 0
        last = spans[k + 1][0] if k + 1 < len(spans) else len(text)
        while start > first and not is_space(text[start - 1]):
            start -= 1
        while stop < last and not is_space(text[stop]):
            stop += 1
        span[:] = start, stop
