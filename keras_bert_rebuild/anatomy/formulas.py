"""Formulas in the letters of the article "Understanding BERT architecture": written once, to be shown, filled in and evaluated."""

import math
import re

# Each letter and what it counts. E, U, R, C, K, B, N, V and M are not in the article.
LETTERS = (
    ("T", "tokens of the vocabulary"),
    ("H", "hidden size"),
    ("D", "the same, as the article writes it in steps 6, 13 and 14"),
    ("E", "width of the embedding tables"),
    ("A", "attention heads"),
    ("L", "layers"),
    ("FFD", "width inside the feed-forward block"),
    ("U", "width inside an adapter"),
    ("P", "rows of the position table"),
    ("R", "rows of the table of distances"),
    ("C", "classes"),
    ("K", "tasks"),
    ("B", "texts of a batch"),
    ("S", "tokens of a text"),
    ("N", "tokens of a text that are predicted"),
    ("V", "keys that a token with a window is compared with"),
    ("M", "how often such a key is read"),
)

# Texts of more than this many windows are computed in bands: `kernels.table.WINDOWS`, as a test checks.
WINDOWS = 8

# The only factor that is not a letter or a number: the width of a head.
HEAD_WIDTH = "(D/A)"


def letters_of(encoder, batch=1, length=1, predictions=1):
    """The number of every letter for an `Encoder` and a batch, as a dictionary; if blocks differ, for the first one."""
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
    """The letters of attention within a window, as a dictionary; empty if no block has one, and for the first one if they differ.

    Args:
        encoder: an `Encoder`.
        length: tokens of a text.

    Returns:
        "V", the keys that a query is compared with, and "M", how often a key is read: in bands of three blocks of a window each, or
        all keys once if the text is short.
    """
    window = next((block.attention.window for block in encoder.blocks if block.attention.window is not None), None)
    if window is None:
        return {}
    return {"V": 3 * max(window, 1), "M": 3} if length > WINDOWS * window else {"V": length, "M": 1}


def value(formula, letters):
    """The value of a formula: a sum of products, in which brackets only group.

    Example:

    >>> value("A·D·(D/A)·3 + 3·D + D·D + D", {"A": 12, "D": 768})
    2362368
    """
    terms = formula.replace(HEAD_WIDTH, "W").replace("(", "").replace(")", "").split(" + ")
    known = {**letters, "W": letters["D"] // letters["A"] if "A" in letters else 0}
    return sum(math.prod(known[factor] if factor in known else int(factor) for factor in term.split("·")) for term in terms)


def filled_in(formula, letters):
    """A formula with numbers for letters.

    Example:

    >>> filled_in("A·D·(D/A)·3 + 3·D", {"A": 12, "D": 768})
    '12·768·64·3 + 3·768'
    """
    pattern = re.escape(HEAD_WIDTH) + "|[A-Z]+|[0-9]+"
    return re.sub(pattern, lambda found: f"{value(found[0], letters):,}", formula)
