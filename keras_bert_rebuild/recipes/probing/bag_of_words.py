"""Bag-of-words features, a baseline without an encoder that vectors should beat."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# The number of columns, for the tokens that occur in most texts.
MOST = 2048


def token_counts(ids: Sequence[npt.NDArray], vocab_size: int) -> npt.NDArray:
    """log(1 + count) of tokens in every text, for the `MOST` tokens that occur in most texts, `(texts, tokens)`.

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
    """The cosine similarity of the counts of pairs of texts, weighted by inverse document frequency.

    Args:
        counts: from `token_counts`.
        first, second: indices of the texts of each pair.
    """
    weighted = counts * np.log(len(counts) / np.maximum(np.count_nonzero(counts, axis=0), 1))
    norms = np.linalg.norm(weighted, axis=1)
    return np.einsum("ij,ij->i", weighted[first], weighted[second]) / np.maximum(norms[first] * norms[second], 1e-12)
