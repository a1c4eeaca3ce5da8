"""Scores of numbers: Pearson's and Spearman's correlation, mean squared error."""

import numpy as np

from keras_bert_rebuild.tasks.metrics.classes import check_lengths

# The scores of numbers; the first one selects checkpoints.
REGRESSION_METRICS = ("spearman", "pearson", "mean_squared_error")

# The scores for which lower is better.
LOWER_IS_BETTER = ("mean_squared_error",)


def pearson(true, predicted):
    """Pearson's correlation of numbers; NaN if one side is constant.

    Example:

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    a, b = (np.asarray(values, "float64") for values in check_lengths(true, predicted))
    if (a == a[0]).all() or (b == b[0]).all():
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    # Scaled first: squares of very small or large numbers underflow or overflow in float64.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(true, predicted):
    """Spearman's correlation: Pearson's of the ranks, equal numbers sharing their mean rank; NaN if one side is constant.

    Example:

    >>> round(spearman([1, 2, 3], [2, 7, 4]), 4)
    0.5
    """
    return pearson(*(ranks(values) for values in check_lengths(true, predicted)))


def mean_squared_error(true, predicted):
    """The mean of the squared differences."""
    a, b = (np.asarray(values, "float64") for values in check_lengths(true, predicted))
    return float(np.mean((a - b) ** 2))


def regression_scores(true, predicted):
    """Pearson's and Spearman's correlation and the mean squared error of numbers."""
    scores = (spearman, pearson, mean_squared_error)
    return {name: score(true, predicted) for name, score in zip(REGRESSION_METRICS, scores, strict=True)}


def ranks(values):
    """The rank of every number, from 1; equal numbers share their mean rank.

    Example:

    >>> ranks([30, 10, 30]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = np.unique(np.asarray(values, "float64"), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]
