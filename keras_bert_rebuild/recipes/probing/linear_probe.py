"""The score of a linear model on frozen vectors: logistic regression for labels, ridge regression for numbers; bags of words.

A probe measures how well a linear function predicts labels from vectors. Both losses are convex, so the result depends only on the
examples, not on a seed or a learning rate. The L2 penalty is chosen on every fifth example; the final fit uses all of them.
A bag of words is the baseline without an encoder, which vectors should beat.

Reference: Alain and Bengio, 2017, "Understanding intermediate layers using linear classifier probes"
(https://arxiv.org/abs/1610.01644).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.recipes.probing.probe_files import ProbeExamples
from keras_bert_rebuild.tasks.metrics.classes import spearman
from keras_bert_rebuild.tasks.metrics.linear_probe import L2S, choose_l2, every_fifth, fit_linear_probe, standardised

# The number of columns of the bag of words, for the tokens that occur in most texts.
MOST = 2048


def score(probe: ProbeExamples, vectors: npt.NDArray[Any]) -> float:
    """The accuracy, or for pairs with scores Spearman's correlation, of a linear model on vectors.

    Args:
        probe: the examples.
        vectors: the vectors of their texts, `(texts, width)`.
    """
    train, dev = (features_of(vectors[part], bool(probe.labels)) for part in (probe.train, probe.dev))
    if probe.labels:
        labels = predicted_labels(train, probe.train_targets, len(probe.labels), dev)
        return float(np.mean(labels == probe.dev_targets))
    return correlation(probe.dev_targets, predicted_numbers(train, probe.train_targets, dev))


def correlation(right: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> float:
    """Spearman's correlation; 0 for constant predictions."""
    value = spearman(right, predicted)
    return 0.0 if np.isnan(value) else value


def features_of(vectors: npt.NDArray[Any], ordered: bool) -> npt.NDArray[Any]:
    """The features of examples: for a text its vector u; for a pair |u − v| and u · v, and if the order matters also u and v.

    Args:
        vectors: `(examples, texts per example, width)`.
        ordered: whether the two texts of a pair have different roles, as in entailment.

    Reference: Conneau et al., 2017, section 3.1 (https://arxiv.org/abs/1705.02364); Tai et al., 2015, section 4.2, for similarity.
    """
    if vectors.shape[1] == 1:
        return vectors[:, 0]
    u, v = vectors[:, 0], vectors[:, 1]
    both = [np.abs(u - v), u * v]
    return np.concatenate([u, v, *both] if ordered else both, axis=1)


def predicted_labels(train: npt.NDArray, labels: npt.NDArray, count: int, test: npt.NDArray) -> npt.NDArray:
    """The labels that a logistic regression predicts for test examples.

    Args:
        train: features of the training examples, `(examples, features)`, in random order.
        labels: their labels, whole numbers below `count`.
        count: number of classes.
        test: features of the test examples.

    Returns:
        Whole numbers, `(test examples,)`.
    """
    train, test = standardised(train, test)
    l2 = choose_l2(train, labels, count, every_fifth(len(train)))
    return fit_linear_probe(train, labels, count, l2).predict(test)


def predicted_numbers(train: npt.NDArray, numbers: npt.NDArray, test: npt.NDArray) -> npt.NDArray:
    """The numbers that a ridge regression predicts for test examples; for the arguments, see `predicted_labels`."""
    train, test = standardised(train, test)
    held = every_fifth(len(train))
    kernels, biases = ridge_regression(train[~held], numbers[~held], L2S)
    errors = np.mean((train[held] @ kernels + biases - numbers[held][:, None]) ** 2, axis=0)
    kernels, biases = ridge_regression(train, numbers, (L2S[int(np.argmin(errors))],))
    return (test @ kernels + biases)[:, 0]


def ridge_regression(vectors: npt.NDArray, numbers: npt.NDArray, l2s: tuple[float, ...]) -> tuple[npt.NDArray, npt.NDArray]:
    """Ridge regressions in closed form for several penalties, from a single decomposition.

        minimise   mean over examples of ½ (vector · kernel + bias − number)² + l2 / 2 · ‖kernel‖²

    Args:
        vectors: `(examples, width)`, float64.
        numbers: `(examples,)`.
        l2s: strengths of the penalty, above 0.

    Returns:
        Kernels `(width, strengths)` and biases `(strengths,)`.

    Reference: Hoerl and Kennard, 1970, "Ridge regression" (https://doi.org/10.1080/00401706.1970.10488634).
    """
    mean, middle = vectors.mean(0), numbers.mean()
    left, values, right = np.linalg.svd(vectors - mean, full_matrices=False)
    projected = left.T @ (numbers - middle)
    kernels = np.stack([right.T @ (values * projected / (values**2 + len(vectors) * l2)) for l2 in l2s], axis=1)
    return kernels, middle - mean @ kernels


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
    column_of = np.full(vocab_size, -1)
    column_of[columns] = np.arange(len(columns))
    counts = np.zeros((len(ids), len(columns)))
    for counted, row in zip(counts, ids, strict=True):
        columns_of_row = column_of[np.asarray(row)]
        np.add.at(counted, columns_of_row[columns_of_row >= 0], 1.0)
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
