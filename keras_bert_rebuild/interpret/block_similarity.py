"""The similarity of the vectors of two depths, of one model or of two, by linear CKA."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.interpret.block_vectors import BlockVectors
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer

# Number of texts whose similarities are computed at once.
TEXTS = 256


@dataclass(frozen=True)
class BlockSimilarity:
    """The linear CKA between the depths of two models, or of one; from `cka`."""

    values: np.ndarray
    """`(depths, depths of the other)`, float64: 1 for vectors that are equal up to a rotation and a scale, about 0 for unrelated
    ones. The unbiased estimate may be slightly below 0."""

    depths: tuple[str, ...]
    """The depths along the first axis: "embedding", "block 1" and so on."""

    other_depths: tuple[str, ...]
    """The depths along the second axis."""

    texts: int
    """The number of texts."""

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "texts": self.texts,
            "depths": list(self.depths),
            "other_depths": list(self.other_depths),
            "cka": np.round(self.values, 6).tolist(),
        }


def cka(
    model: keras.Model,
    other: keras.Model | None = None,
    *,
    texts: Sequence[str],
    tokenizer: BatchTokenizer,
    other_tokenizer: BatchTokenizer | None = None,
    pooling: str = "mean",
    max_len: int | None = None,
    batch_size: int = 32,
) -> BlockSimilarity:
    """The similarity of the vectors of texts between all depths (embedding and blocks) of a model and itself, or another model.

    Linear CKA compares the similarities between texts: it is invariant to rotation and scaling of the vectors of a depth, so models
    of different widths and trainings can be compared. The estimate from batches of texts is unbiased, and memory does not grow with
    the number of texts.

    Args:
        model: any model with an encoder of this library in it.
        other: a second model; None for the model itself.
        texts: at least 4; several hundred give two significant digits.
        tokenizer: the tokenizer of the model.
        other_tokenizer: the tokenizer of the other model; None for the same.
        pooling: "mean" or "cls": see `BlockVectors.of_texts`.
        max_len, batch_size: see `BlockVectors`.

    Returns:
        A `BlockSimilarity`.

    Raises:
        ValueError: there are fewer than 4 texts, or a model cannot read them.

    Reference: Kornblith et al., 2019, section 3 (https://arxiv.org/abs/1905.00414); Nguyen et al., 2021, section 3
    (https://arxiv.org/abs/2010.15327), for the estimate from batches.
    """
    texts = list(texts)
    if len(texts) < 4 or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts must be a list of at least 4 strings; got {len(texts)}.")
    reader = BlockVectors(model, tokenizer, max_len, batch_size)
    second = reader if other is None else BlockVectors(other, other_tokenizer or tokenizer, max_len, batch_size)
    sums = MeanSimilarity()
    for part in np.array_split(np.arange(len(texts)), -(-len(texts) // TEXTS)):
        chosen = [texts[i] for i in part]
        vectors = reader.of_texts(chosen, pooling=pooling)
        sums.add(vectors, vectors if second is reader else second.of_texts(chosen, pooling=pooling))
    return BlockSimilarity(sums.result(), reader.depths, second.depths, len(texts))


class MeanSimilarity:
    """Linear CKA of the depths of two models from batches of vectors.

        CKA = Σ HSIC₁(K, L) / √(Σ HSIC₁(K, K) · Σ HSIC₁(L, L))        over the batches, K = X Xᵀ, L = Y Yᵀ

    With a single batch it is the unbiased CKA. HSIC₁ is the unbiased estimator of Song et al. (2012, section 3,
    https://www.jmlr.org/papers/v13/song12a.html):

        HSIC₁(K, L) = (tr(K̃ L̃) + 1ᵀK̃1 · 1ᵀL̃1 / ((n - 1)(n - 2)) - 2 / (n - 2) · 1ᵀK̃ L̃1) / (n (n - 3))

    with K̃ and L̃ without their diagonals.
    """

    def __init__(self) -> None:
        self._sums: list[Any] = [0.0, 0.0, 0.0]

    def add(self, first: np.ndarray, second: np.ndarray) -> None:
        """Add a batch: vectors `(depths, n, width)` of the same n ≥ 4 examples; depths and widths may differ."""
        ours = _grams(first)
        theirs = ours if second is first else _grams(second)
        parts = _hsic(ours, theirs), _own(ours), _own(theirs)
        self._sums = [total + part for total, part in zip(self._sums, parts, strict=True)]

    def result(self) -> np.ndarray:
        """`(depths, depths of the second)`; NaN if all vectors of a depth are equal."""
        shared, first, second = self._sums
        scale = np.sqrt(np.maximum(np.outer(first, second), 0))
        return np.divide(shared, scale, out=np.full(scale.shape, np.nan), where=scale > 0)


def _grams(vectors):
    """The Gram matrices of examples without their diagonals, `(depths, n, n)`, float64."""
    vectors = np.asarray(vectors, "float64")
    # Centring does not change the estimator, but avoids cancellation of large common components.
    vectors = vectors - vectors.mean(1, keepdims=True)
    grams = vectors @ vectors.transpose(0, 2, 1)
    grams[:, np.arange(grams.shape[1]), np.arange(grams.shape[1])] = 0
    return grams


def _own(grams):
    """HSIC₁ of every depth with itself, `(depths,)`."""
    return np.array([_hsic(gram[None], gram[None])[0, 0] for gram in grams])


def _hsic(first, second):
    """HSIC₁ of every pair, `(depths, depths)`."""
    n = first.shape[1]
    traces = first.reshape(len(first), -1) @ second.reshape(len(second), -1).T
    rows, others = first.sum(2), second.sum(2)
    totals = np.outer(rows.sum(1), others.sum(1))
    return (traces + totals / ((n - 1) * (n - 2)) - 2 / (n - 2) * rows @ others.T) / (n * (n - 3))
