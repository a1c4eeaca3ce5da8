"""Scores of labels and numbers, and the sets of scores of the tasks.

Accuracy, F1, Matthews and the confusion matrix; Pearson's and Spearman's correlation and the mean squared error.
"""

import numpy as np


def confusion_matrix(true, predicted, labels=None):
    """The confusion matrix: the counts of each predicted label for each true label.

    Args:
        true: a label for every example.
        predicted: the predicted label of every example.
        labels: all labels, in the order of rows and columns; None for those that occur, sorted.

    Returns:
        `(labels, labels)`, int64: rows are true labels, columns predicted ones.

    Raises:
        ValueError: the numbers of labels differ or are 0, or a label is not among `labels`.

    Example:

    >>> confusion_matrix(["a", "a", "b"], ["a", "b", "b"]).tolist()
    [[1, 1], [0, 1]]
    """
    true, predicted = check_lengths(true, predicted)
    labels = sorted({*true, *predicted}) if labels is None else list(labels)
    index = {label: i for i, label in enumerate(labels)}
    unknown = next((label for label in (*true, *predicted) if label not in index), None)
    if unknown is not None:
        raise ValueError(f"expected labels among {', '.join(map(str, labels))}; got {unknown}.")
    cells = [index[a] * len(labels) + index[b] for a, b in zip(true, predicted, strict=True)]
    return np.bincount(cells, minlength=len(labels) ** 2).reshape(len(labels), len(labels)).astype("int64")


def accuracy(true, predicted):
    """The fraction of examples whose label was predicted correctly.

    Example:

    >>> accuracy(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    0.75
    """
    true, predicted = check_lengths(true, predicted)
    return sum(a == b for a, b in zip(true, predicted, strict=True)) / len(true)


def class_scores(true, predicted, labels=None):
    """Precision, recall, F1 and number of examples of every label.

    Returns:
        A dictionary by label of dictionaries with `precision`, `recall`, `f1` and `support`; 0 / 0 counts as 0.
    """
    true, predicted = check_lengths(true, predicted)
    labels = sorted({*true, *predicted}) if labels is None else list(labels)
    matrix = confusion_matrix(true, predicted, labels)
    return {label: counted(*counts) for label, counts in zip(labels, _counts(matrix), strict=True)}


def macro_f1(true, predicted):
    """The mean F1 of all labels that occur among the true or predicted ones.

        F1 = 2 · precision · recall / (precision + recall) = 2 · found / (true + predicted)

    Example:

    >>> macro_f1(["a", "a", "b"], ["a", "a", "a"])
    0.4
    """
    return float(np.mean([scores["f1"] for scores in class_scores(true, predicted).values()]))


def micro_f1(true, predicted):
    """F1 of all labels counted together, for texts with any number of labels.

    Args:
        true, predicted: the labels of every example, a tuple or set.

    Example:

    >>> micro_f1([("a", "b"), ()], [("a",), ("b",)])
    0.5
    """
    true, predicted = check_lengths(true, predicted)
    right = sum(len({*a} & {*b}) for a, b in zip(true, predicted, strict=True))
    return counted(right, sum(len({*a}) for a in true), sum(len({*b}) for b in predicted))["f1"]


def macro_f1_of_sets(true, predicted, labels=None):
    """The mean F1 of the labels, for texts with any number of labels.

    Args:
        true, predicted: the labels of every example, a tuple or set.
        labels: the labels to average over; None for those that occur.
    """
    true, predicted = check_lengths(true, predicted)
    labels = sorted({label for row in (*true, *predicted) for label in row}) if labels is None else labels
    scores = []
    for label in labels:
        has = [(label in a, label in b) for a, b in zip(true, predicted, strict=True)]
        scores.append(counted(sum(a and b for a, b in has), sum(a for a, _ in has), sum(b for _, b in has))["f1"])
    return float(np.mean(scores)) if scores else 0.0


def matthews(true, predicted):
    """Matthews's correlation of two or more labels; 0 if all true or all predicted ones are the same.

        (c · n − Σ tₖ pₖ) / √((n² − Σ pₖ²) (n² − Σ tₖ²))

    with n examples, c of them correct, and label k true in tₖ and predicted in pₖ examples.

    Example:

    >>> matthews([1, 1, 0, 0], [1, 0, 0, 0])
    0.5773502691896258

    Reference: Gorodkin, 2004 (https://doi.org/10.1016/j.compbiolchem.2004.09.006).
    """
    matrix = confusion_matrix(true, predicted).astype("float64")
    n, right, true_counts, predicted_counts = matrix.sum(), matrix.trace(), matrix.sum(1), matrix.sum(0)
    spread = (n**2 - predicted_counts @ predicted_counts) * (n**2 - true_counts @ true_counts)
    return float((right * n - true_counts @ predicted_counts) / np.sqrt(spread)) if spread > 0 else 0.0


def classification_scores(true, predicted):
    """Accuracy, macro F1 and Matthews's correlation of texts with one label each.

    Args:
        true, predicted: a label for every text; F1 is the mean over the labels that occur.
    """
    return {"accuracy": accuracy(true, predicted), "macro_f1": macro_f1(true, predicted), "matthews": matthews(true, predicted)}


def multi_label_scores(true, predicted, labels=None):
    """Micro F1, macro F1, and the fraction of texts with exactly the true labels, for texts with any number of labels.

    Args:
        true, predicted: the labels of every text.
        labels: the labels that macro F1 averages over; None for those that occur.
    """
    exact = accuracy([frozenset(row) for row in true], [frozenset(row) for row in predicted])
    return {"micro_f1": micro_f1(true, predicted), "macro_f1": macro_f1_of_sets(true, predicted, labels), "accuracy": exact}


def tag_scores(true, predicted):
    """Accuracy and macro F1 of tags that do not describe entities.

    Args:
        true, predicted: the tags of every sentence.
    """
    true, predicted = check_lengths(true, predicted)
    flat = [[tag for tags in side for tag in tags] for side in (true, predicted)]
    return {"accuracy": accuracy(*flat), "macro_f1": macro_f1(*flat)}


def confusion_rows(true, predicted):
    """`labels`, sorted, O last, and `confusion`, the rows of the matrix as lists, for a report."""
    labels = sorted({*true, *predicted}, key=lambda label: (label == "O", label))
    return {"labels": labels, "confusion": confusion_matrix(true, predicted, labels).tolist()}


def counted(right, true, predicted):
    """Precision, recall and F1 from the numbers of true positives, true items and predicted items."""
    return {
        "precision": float(right / predicted) if predicted else 0.0,
        "recall": float(right / true) if true else 0.0,
        "f1": float(2 * right / (true + predicted)) if true + predicted else 0.0,
        "support": int(true),
    }


def check_lengths(true, predicted):
    """Both as lists of the same length, at least one; else a ValueError."""
    true, predicted = list(true), list(predicted)
    if len(true) != len(predicted) or not true:
        raise ValueError(f"expected as many predictions as labels, at least one; got {len(predicted)} and {len(true)}.")
    return true, predicted


def _counts(matrix):
    return zip(matrix.diagonal().tolist(), matrix.sum(1).tolist(), matrix.sum(0).tolist(), strict=True)


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
