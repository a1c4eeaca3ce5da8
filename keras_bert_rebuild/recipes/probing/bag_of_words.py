"""What texts tell without an encoder: the counts of their tokens, which a vector must beat to be worth its computation."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# The most frequent tokens that have a column.
MOST = 2048


def token_counts(ids: Sequence[npt.NDArray], vocab_size: int) -> npt.NDArray:
    """How often each text has each token, of the `MOST` tokens that most texts have, as log(1 + count), `(texts, tokens)`.

    Args:
        ids: token ids of every text.
        vocab_size: tokens of the vocabulary.
    """
    texts_with = np.zeros(vocab_size, "int64")
    for row in ids:
        texts_with[np.unique(row)] += 1
    columns = np.flatnonzero(texts_with)
    columns = columns[np.argsort(-texts_with[columns], kind="stable")][:MOST]
    place = np.full(vocab_size, -1)
    place[columns] = np.arange(len(columns))
    counts = np.zeros((len(ids), len(columns)))
    for counted, row in zip(counts, ids, strict=True):
        places = place[np.asarray(row)]
        np.add.at(counted, places[places >= 0], 1.0)
    return np.log1p(counts)


def overlap(counts: npt.NDArray, first: npt.NDArray, second: npt.NDArray) -> npt.NDArray:
    """The cosine of the counts of the texts of pairs, rare tokens weighing more by log(texts / texts with the token).

    Args:
        counts: as from `token_counts`.
        first, second: indices of the texts of each pair.
    """
    weighted = counts * np.log(len(counts) / np.maximum(np.count_nonzero(counts, axis=0), 1))
    norms = np.linalg.norm(weighted, axis=1)
    return np.einsum("ij,ij->i", weighted[first], weighted[second]) / np.maximum(norms[first] * norms[second], 1e-12)
