"""MaxSim as a similarity for training: the sum over query tokens of their best match among the tokens of a text.

`data/max_sim.py` computes it for a search, over stored vectors in blocks.
"""

from typing import Any

from keras import ops

# Replaces the products of tokens that are not compared; below every product of vectors.
NEVER = -1e9


def every_max_sim(queries: Any, texts: Any) -> Any:
    """The score of each query with each text.

        score = Σ_i max_j query_i · text_j

    Tokens with zero vectors, such as padding and punctuation, are not compared.

    Args:
        queries: `(n, query tokens, width)`.
        texts: `(m, tokens, width)`.

    Returns:
        `(n, m)`.

    Reference: Khattab and Zaharia, 2020, section 3.3 (https://arxiv.org/abs/2004.12832).
    """
    products = ops.einsum("nqd,mtd->nmqt", queries, texts)
    return _summed(products, _compared(queries)[:, None, :], _compared(texts)[None, :, None, :])


def own_max_sim(queries: Any, texts: Any) -> Any:
    """The score of each query with each of its own texts: as `every_max_sim`, `texts (n, m, tokens, width)`."""
    products = ops.einsum("nqd,nmtd->nmqt", queries, texts)
    return _summed(products, _compared(queries)[:, None, :], _compared(texts)[:, :, None, :])


def _summed(products, of_query, of_text):
    best = ops.max(ops.where(of_text, products, NEVER), axis=-1)
    return ops.sum(ops.where(of_query, best, 0.0), axis=-1)


def _compared(vectors):
    return ops.max(ops.abs(vectors), axis=-1) > 0
