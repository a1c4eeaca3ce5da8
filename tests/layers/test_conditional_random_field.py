"""The layer whose outputs are scores and transitions, and the best sequences by them."""

import itertools

import keras
import numpy as np
import pytest
from helpers.check_layer import check_layer

from keras_bert_rebuild.layers import ConditionalRandomField
from keras_bert_rebuild.layers.conditional_random_field import marginals, viterbi

pytestmark = pytest.mark.backend

X = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")


def all_scores(scores, own):
    """The score of every sequence, a dictionary."""
    labels = len(own) - 2
    return {
        row: own[labels][row[0]]
        + scores[np.arange(len(row)), row].sum()
        + sum(own[pair] for pair in itertools.pairwise(row))
        + own[labels + 1][row[-1]]
        for row in itertools.product(range(labels), repeat=len(scores))
    }


def test_it_meets_the_contract_of_layers():
    check_layer(lambda **k: ConditionalRandomField(**k), X - 9, (2, 9, 3))  # so that the maximum is a transition


def test_outputs_are_the_scores_followed_by_the_transitions(rng):
    layer = ConditionalRandomField()
    layer.build((None, None, 3))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    outputs = keras.ops.convert_to_numpy(layer(X))
    assert np.array_equal(outputs[:, :4], X)
    assert np.array_equal(outputs[0, 4:], layer.transitions)
    assert np.array_equal(outputs[1, 4:], layer.transitions)
    assert layer.transitions.shape == (5, 3)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_labels_are_those_of_the_best_of_all_sequences(seed):
    rng = np.random.default_rng(seed)
    scores, own = rng.normal(size=(2, 6, 3)), rng.normal(size=(5, 3)) * 2
    outputs = np.concatenate([scores, np.stack([own, own])], axis=1)
    best = ConditionalRandomField.decode(outputs)
    mask = np.array([[0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 0]])
    masked = ConditionalRandomField.decode(outputs, mask)
    for row in range(2):
        found = all_scores(scores[row], own)
        assert tuple(best[row]) == max(found, key=found.get)
        kept = mask[row] > 0
        found = all_scores(scores[row][kept], own)
        assert tuple(masked[row][kept]) == max(found, key=found.get)
        assert not masked[row][~kept].any()


def test_marginals_equal_sums_over_all_sequences(rng):
    scores, own = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)) * 2
    found = all_scores(scores, own)
    total = np.sum(np.exp(list(found.values())))
    for place, label in np.ndindex(4, 3):
        share = sum(np.exp(score) for row, score in found.items() if row[place] == label) / total
        assert marginals(scores, own)[place, label] == pytest.approx(share)
    assert marginals(np.zeros((0, 3)), own).shape == (0, 3)


def test_forbidden_transitions_do_not_occur():
    own = np.zeros((4, 2))
    own[0, 0] = own[1, 1] = -np.inf
    assert viterbi(np.array([[3.0, 0], [3, 0], [3, 0]]), own).tolist() == [0, 1, 0]
    assert viterbi(np.array([[3.0, 0], [3, 0]]), np.full((4, 2), -np.inf)).tolist() == [0, 0]


def test_wrong_shapes_are_one_sentence():
    with pytest.raises(ValueError, match=r"expected outputs \(batch, length \+ labels \+ 2, labels\); got the shape \(2, 4, 3\)"):
        ConditionalRandomField.decode(X)
    with pytest.raises(ValueError, match=r"expected a mask of shape \(2, 2\); got \(2, 3\)"):
        ConditionalRandomField.decode(np.zeros((2, 7, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="known number of labels"):
        ConditionalRandomField()(keras.Input((4, None)))
