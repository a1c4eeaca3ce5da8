"""Losses of lists of texts, against loops in plain Python."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild.training.reranking_losses import (
    LambdaLoss,
    ListwiseLoss,
    MarginErrorLoss,
    PairwiseLoss,
    PointwiseLoss,
    SquaredErrorLoss,
)


def lists(rng, count=3, size=4):
    """Scores, grades 0 to 2, and which rows are texts: the last list has a row of padding with an absurd score."""
    scores = rng.normal(size=(count, size)).astype("float32")
    labels = rng.integers(0, 3, (count, size)).astype("float32")
    labels[:, 0], labels[:, 1] = 2, 0
    counts = np.ones((count, size), "float32")
    counts[-1, -1], scores[-1, -1] = 0, 50.0
    return scores, labels, counts


def value(loss, scores, labels, counts):
    y_true = np.stack([labels.ravel(), counts.ravel()], axis=1)
    return float(loss(ops.convert_to_tensor(y_true), ops.convert_to_tensor(scores.reshape(-1, 1))))


def texts(scores, labels, counts):
    """The scores and labels of every list, without padding."""
    for row in zip(scores, labels, counts, strict=True):
        kept = row[2] > 0
        yield row[0][kept].tolist(), row[1][kept].tolist()


def log_sigmoid(x):
    return -math.log1p(math.exp(-x))


def pointwise(found):
    rows = [(s, y / 2) for scores, labels in found for s, y in zip(scores, labels, strict=True)]
    return np.mean([-3 * y * log_sigmoid(s) - (1 - y) * log_sigmoid(-s) for s, y in rows])


def pairwise(found):
    return np.mean([-log_sigmoid(s[i] - s[j]) for s, y in found for i in range(len(s)) for j in range(len(s)) if y[i] > y[j]])


def lambda_loss(found, mu):
    terms = []
    for s, y in found:
        rank = {i: r for r, i in enumerate(sorted(range(len(s)), key=lambda i: -s[i]), 1)}
        gain = [2**grade - 1 for grade in y]
        best = sum(g / math.log2(1 + r) for r, g in enumerate(sorted(gain, reverse=True), 1))
        for i in range(len(s)):
            for j in range(len(s)):
                if y[i] > y[j]:
                    d = abs(rank[i] - rank[j])
                    by_rank = abs(1 / math.log2(1 + rank[i]) - 1 / math.log2(1 + rank[j]))
                    by_distance = abs(1 / math.log2(1 + d) - 1 / math.log2(2 + d))
                    weight = abs(gain[i] - gain[j]) / best * (by_rank + mu * by_distance)
                    terms.append(-weight * log_sigmoid(s[i] - s[j]))
    return np.mean(terms)


def listwise(found, from_scores):
    losses = []
    for s, y in found:
        share = np.exp(y) if from_scores else np.array(y)
        losses.append(-np.sum(share / share.sum() * (np.array(s) - np.log(np.sum(np.exp(s))))))
    return np.mean(losses)


def margin(found):
    return np.mean([((s[0] - s[i]) - (y[0] - y[i])) ** 2 for s, y in found for i in range(1, len(s))])


def squared(found):
    return np.mean([(a - b) ** 2 for s, y in found for a, b in zip(s, y, strict=True)])


@pytest.mark.parametrize(
    ("loss", "by_hand"),
    [
        (PairwiseLoss(4), pairwise),
        (LambdaLoss(mu=2.0, list_size=4), lambda found: lambda_loss(found, 2.0)),
        (ListwiseLoss(list_size=4), lambda found: listwise(found, False)),
        (ListwiseLoss(from_scores=True, list_size=4), lambda found: listwise(found, True)),
        (MarginErrorLoss(4), margin),
        (SquaredErrorLoss(4), squared),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_a_loss_is_its_formula_over_the_texts_that_are_not_padding(rng, loss, by_hand):
    scores, labels, counts = lists(rng)
    assert value(loss, scores, labels, counts) == pytest.approx(by_hand(list(texts(scores, labels, counts))), rel=1e-4)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert value(again, scores, labels, counts) == value(loss, scores, labels, counts)


def test_pointwise_is_the_weighted_cross_entropy_of_soft_labels(rng):
    scores, labels, counts = lists(rng)
    expected = pointwise(list(texts(scores, labels, counts)))
    for size in (1, 4):
        loss = PointwiseLoss(positive_weight=3.0, list_size=size)
        assert value(loss, scores, labels / 2, counts) == pytest.approx(expected, rel=1e-4)


def test_the_order_of_the_texts_of_a_list_changes_no_loss_of_lists(rng):
    scores, labels, counts = lists(rng)
    order = rng.permutation(4)
    for loss in (PairwiseLoss(4), LambdaLoss(list_size=4), ListwiseLoss(list_size=4)):
        shuffled = value(loss, scores[:, order], labels[:, order], counts[:, order])
        assert shuffled == pytest.approx(value(loss, scores, labels, counts), rel=1e-5)


def test_lists_in_which_nothing_differs_have_no_loss(rng):
    scores, _, counts = lists(rng)
    for loss in (PairwiseLoss(4), LambdaLoss(list_size=4), ListwiseLoss(list_size=4)):
        assert value(loss, scores, np.zeros_like(scores), counts) == 0.0
