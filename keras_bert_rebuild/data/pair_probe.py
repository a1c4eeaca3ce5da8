"""How much of the second task can be told without understanding: by lengths and by the tokens at the edges of the segments."""

from collections import namedtuple
from typing import Any

import numpy as np

# Right answers of the probe, and of always the more frequent answer, as parts of 1.
Probe = namedtuple("Probe", ["accuracy", "prior"])

# A length is told as a part of the length of the rows, in so many steps.
STEPS = 16
_ROUNDS, _DECAY, _RATE, _MOMENTUM = 150, 3e-3, 0.2, 0.9


def probe_of_pairs(train: Any, test: Any = None, examples: int = 8000) -> Probe:
    """Let a logistic regression solve the second task by what needs no understanding.

    It is told the first and the last token of both segments, before any is masked, and the lengths of both and of all. What a model
    is better than this is what it may have understood.

    Args:
        train: `PretrainingBatches` with pairs, whose first examples the probe learns from.
        test: others that it is judged on; None for those of `train` that follow.
        examples: how many to learn from. As many are judged, fewer where an epoch of `test` has fewer.

    Returns:
        `Probe`.
    """
    parts = -(-examples // train.batch_size)
    seen = examples_of(train, range(parts))
    test, judged = (
        (train, range(parts, 2 * parts)) if test is None else (test, range(min(len(test), -(-examples // test.batch_size))))
    )
    judged = examples_of(test, judged)
    tokens = len(train.tables.special)
    learnt, asked = (edge_columns(segments, train.seq_len, tokens) for segments, _ in (seen, judged))
    return probe(learnt, asked, seen[1], judged[1])


def examples_of(batches, numbers):
    """The rows of some batches, counted over all epochs: tokens before masking and where segments end, and labels.

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
    """What the probe is told, numbers from 0 on in columns, and how many a column may have.

    Args:
        rows: as the first of the pair from `examples_of`.
        seq_len: length of the rows.
        tokens: size of the vocabulary.
    """
    ids, first_end, second_end = rows
    edges = np.ones_like(first_end), first_end - 1, first_end + 1, second_end - 1
    at_edges = [np.take_along_axis(ids, place[:, None], axis=1)[:, 0] for place in edges]
    lengths = first_end - 1, second_end - first_end - 1, second_end - 2
    return [*at_edges, *(length_step(length, seq_len) for length in lengths)], [tokens] * 4 + [STEPS] * 3


def length_step(length, seq_len):
    """A length as a part of the length of the rows, a number below `STEPS`."""
    return np.minimum(length * STEPS // seq_len, STEPS - 1)


def probe(train, test, train_labels, test_labels):
    """Learn labels from columns of numbers by logistic regression, each number a feature of its own.

    Args:
        train, test: columns and how many numbers each may have, as from `edge_columns`.
        train_labels, test_labels: 0 or 1, `(examples,)`.

    Returns:
        `Probe`, of the test.
    """
    begins = np.concatenate([[0], np.cumsum(train[1])])
    learnt, judged = (np.stack(columns, axis=1) + begins[:-1] for columns, _ in (train, test))
    weights, speed = np.zeros(begins[-1]), np.zeros(begins[-1])
    count, width = learnt.shape
    share = np.bincount(learnt.ravel(), minlength=len(weights)) / count
    rate = _RATE / np.sqrt(share * width + 1e-3)  # what is frequent takes shorter steps
    bias = _logit(train_labels.mean())
    for _ in range(_ROUNDS):
        wrong = 1 / (1 + np.exp(-bias - weights[learnt].sum(axis=1))) - train_labels
        gradient = np.bincount(learnt.ravel(), np.repeat(wrong, width), len(weights)) / count + _DECAY / width * weights
        speed = _MOMENTUM * speed - rate * gradient
        weights += speed
    answers = bias + weights[judged].sum(axis=1) > 0
    mean = float(test_labels.mean())
    return Probe(float((answers == test_labels).mean()), max(mean, 1 - mean))


def _widened(rows, length, padding):
    return np.pad(rows, ((0, 0), (0, length - rows.shape[1])), constant_values=padding)


def _logit(mean):
    mean = np.clip(mean, 1e-6, 1 - 1e-6)
    return np.log(mean / (1 - mean))
