"""A baseline for the pair task: how well it is solved by segment lengths and the tokens at segment edges alone."""

from collections import namedtuple
from typing import Any

import numpy as np

# The accuracy of the probe, and that of always predicting the more frequent label.
Probe = namedtuple("Probe", ["accuracy", "prior"])

# Lengths are binned relative to the length of the rows, into this many bins.
STEPS = 16
_UPDATES, _DECAY, _RATE, _MOMENTUM = 150, 3e-3, 0.2, 0.9


def probe_of_pairs(train: Any, test: Any = None, examples: int = 8000) -> Probe:
    """Train a logistic regression to solve the pair task from features that need no understanding.

    The features are the first and last token of both segments, before masking, the length of each segment and their total length.
    A model only shows understanding to the extent that it is more accurate than this probe.

    Args:
        train: `PretrainingBatches` with pairs, on whose first examples the probe is trained.
        test: other batches to evaluate it on; None for the next examples of `train`.
        examples: number of training examples. The evaluation uses the same number, or fewer if an epoch of `test` has fewer.

    Returns:
        `Probe`.
    """
    parts = -(-examples // train.batch_size)
    learned = examples_of(train, range(parts))
    test, numbers = (
        (train, range(parts, 2 * parts)) if test is None else (test, range(min(len(test), -(-examples // test.batch_size))))
    )
    tested = examples_of(test, numbers)
    tokens = len(train.tables.special)
    train_columns, test_columns = (edge_columns(segments, train.seq_len, tokens) for segments, _ in (learned, tested))
    return probe(train_columns, test_columns, learned[1], tested[1])


def examples_of(batches, numbers):
    """The tokens before masking, segment ends and labels of batches, by their indices counted over all epochs.

    Returns:
        A pair: token ids `(examples, length)` with the columns of both `[SEP]`, `(examples,)` each; and the labels `(examples,)`.
    """
    made = [batches.batch(*divmod(number, len(batches))) for number in numbers]
    longest = max(labels.shape[1] for _, (labels, _) in made)
    ids = np.concatenate([_widened(labels[..., 0], longest, batches.tables.pad_id) for _, (labels, _) in made])
    second = np.concatenate([_widened(segments, longest, 0) for (_, segments, _), _ in made])
    last = longest - 1 - second[:, ::-1].argmax(axis=1)
    return (ids, second.argmax(axis=1) - 1, last), np.concatenate([label[:, 0] for _, (_, label) in made])


def edge_columns(rows, seq_len, tokens):
    """The features of the probe as columns of integers from 0, and the number of possible values of each column.

    Args:
        rows: the first of the pair from `examples_of`.
        seq_len: length of the rows.
        tokens: size of the vocabulary.
    """
    ids, first_end, second_end = rows
    edges = np.ones_like(first_end), first_end - 1, first_end + 1, second_end - 1
    at_edges = [np.take_along_axis(ids, column[:, None], axis=1)[:, 0] for column in edges]
    lengths = first_end - 1, second_end - first_end - 1, second_end - 2
    return [*at_edges, *(length_step(length, seq_len) for length in lengths)], [tokens] * 4 + [STEPS] * 3


def length_step(length, seq_len):
    """The bin of a length relative to the length of the rows, an integer below `STEPS`."""
    return np.minimum(length * STEPS // seq_len, STEPS - 1)


def probe(train, test, train_labels, test_labels):
    """Learn labels from columns of integers by logistic regression, with each value of a column a separate feature.

    Args:
        train, test: columns and the number of possible values of each, see `edge_columns`.
        train_labels, test_labels: 0 or 1, `(examples,)`.

    Returns:
        `Probe`, measured on `test`.
    """
    begins = np.concatenate([[0], np.cumsum(train[1])])
    train_features, test_features = (np.stack(columns, axis=1) + begins[:-1] for columns, _ in (train, test))
    weights, velocity = np.zeros(begins[-1]), np.zeros(begins[-1])
    count, width = train_features.shape
    share = np.bincount(train_features.ravel(), minlength=len(weights)) / count
    rate = _RATE / np.sqrt(share * width + 1e-3)  # smaller steps for frequent features
    bias = _logit(train_labels.mean())
    for _ in range(_UPDATES):
        error = 1 / (1 + np.exp(-bias - weights[train_features].sum(axis=1))) - train_labels
        gradient = np.bincount(train_features.ravel(), np.repeat(error, width), len(weights)) / count + _DECAY / width * weights
        velocity = _MOMENTUM * velocity - rate * gradient
        weights += velocity
    answers = bias + weights[test_features].sum(axis=1) > 0
    mean = float(test_labels.mean())
    return Probe(float((answers == test_labels).mean()), max(mean, 1 - mean))


def _widened(rows, length, padding):
    return np.pad(rows, ((0, 0), (0, length - rows.shape[1])), constant_values=padding)


def _logit(mean):
    mean = np.clip(mean, 1e-6, 1 - 1e-6)
    return np.log(mean / (1 - mean))
