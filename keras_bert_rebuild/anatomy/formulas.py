"""Formulas in the letters of the article "Understanding BERT architecture": written once, then displayed, filled in, evaluated."""

import math
import re

# Each letter and its meaning. E, U, R, C, K, B, N, V and M are not in the article.
LETTERS = (
    ("T", "vocabulary size"),
    ("H", "hidden size"),
    ("D", "the same: the article's letter in steps 6, 13 and 14"),
    ("E", "width of the embedding tables"),
    ("A", "attention heads"),
    ("L", "layers"),
    ("FFD", "width inside the feed-forward block"),
    ("U", "width of the adapters"),
    ("P", "rows of the position table"),
    ("R", "rows of the table of distances"),
    ("C", "classes"),
    ("K", "tasks"),
    ("B", "texts of a batch"),
    ("S", "tokens of a text"),
    ("N", "predicted tokens per text"),
    ("V", "keys per query in windowed attention"),
    ("M", "how often each of these keys is read"),
)

# Texts longer than this many windows are computed in bands; equal to `kernels.conditions.WINDOWS`, which a test checks.
WINDOWS = 8

# The width of a head, the only factor that is neither a letter nor a number.
HEAD_WIDTH = "(D/A)"


def letters_of(encoder, batch=1, length=1, predictions=1):
    """Letter to number for an `Encoder` and a batch, a dictionary; if blocks differ, of the first block."""
    embedding, blocks = encoder.embedding, {}
    if encoder.blocks:
        first = encoder.blocks[0]
        blocks = {"A": first.attention.heads, "FFD": first.feed_forward.inner, "U": first.adapter}
    return {
        "T": embedding.tokens,
        "H": encoder.width,
        "D": encoder.width,
        "E": embedding.width,
        "L": len(encoder.blocks),
        "P": embedding.positions.rows,
        "C": encoder.labels,
        "K": embedding.tasks,
        "B": batch,
        "S": length,
        "N": predictions,
        **({} if encoder.relative is None else {"R": encoder.relative.rows}),
        **band_letters(encoder, length),
        **blocks,
    }


def band_letters(encoder, length):
    """The letters of windowed attention, as a dictionary; empty without windows, of the first such block if several differ.

    Args:
        encoder: an `Encoder`.
        length: tokens of a text.

    Returns:
        "V", the keys per query, and "M", how often a key is read: in bands of three windows each, or all keys once if the text is
        short.
    """
    window = next((block.attention.window for block in encoder.blocks if block.attention.window is not None), None)
    if window is None:
        return {}
    return {"V": 3 * max(window, 1), "M": 3} if length > WINDOWS * window else {"V": length, "M": 1}


def value(formula, letters):
    """The value of a formula: a sum of products; parentheses only group factors.

    Example:

    >>> value("A·D·(D/A)·3 + 3·D + D·D + D", {"A": 12, "D": 768})
    2362368
    """
    terms = formula.replace(HEAD_WIDTH, "W").replace("(", "").replace(")", "").split(" + ")
    known = {**letters, "W": letters["D"] // letters["A"] if "A" in letters else 0}
    return sum(math.prod(known[factor] if factor in known else int(factor) for factor in term.split("·")) for term in terms)


def filled_in(formula, letters):
    """A formula with its letters replaced by numbers.

    Example:

    >>> filled_in("A·D·(D/A)·3 + 3·D", {"A": 12, "D": 768})
    '12·768·64·3 + 3·768'
    """
    pattern = re.escape(HEAD_WIDTH) + "|[A-Z]+|[0-9]+"
    return re.sub(pattern, lambda found: f"{value(found[0], letters):,}", formula)
