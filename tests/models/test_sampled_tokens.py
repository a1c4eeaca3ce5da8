"""Tokens sampled with given random numbers follow the softmax, and no gradient flows through them."""

import numpy as np
import pytest
from helpers.gradients import value_and_gradients
from keras import ops

from keras_bert_rebuild.anatomy.heads import DRAW_BITS
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, uniform
from keras_bert_rebuild.models.replaced_token_model import sample_tokens

pytestmark = pytest.mark.backend


def samples_of(logits, draws):
    return ops.convert_to_numpy(sample_tokens(ops.convert_to_tensor(logits), ops.convert_to_tensor(draws, dtype="int32")))


def softmax(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def test_samples_follow_the_softmax():
    rows, classes = 40_000, 12
    logits = np.linspace(-3.0, 1.5, classes).astype("float32")
    draws = below(uniform(keys(3, 0, np.arange(rows // 20)), 20, Stream.SAMPLE), 1 << DRAW_BITS).astype("int32")
    got = samples_of(np.broadcast_to(logits, (*draws.shape, classes)), draws)
    expected = softmax(logits) * rows
    counts = np.bincount(got.ravel(), minlength=classes)
    # Chi-square with 11 degrees of freedom: 99.9 % of samples of the softmax are below 31.3.
    assert ((counts - expected) ** 2 / expected).sum() < 31.3


def test_a_sample_is_the_first_token_whose_cumulated_probability_exceeds_the_draw(rng):
    logits = rng.normal(0, 2, (6, 7, 30)).astype("float32")
    draws = rng.integers(0, 1 << DRAW_BITS, (6, 7))
    sums = np.cumsum(softmax(logits.astype("float64")), axis=-1)
    expected = (sums <= (draws / 2.0**DRAW_BITS)[..., None]).sum(-1)
    np.testing.assert_array_equal(samples_of(logits, draws), expected)


def test_no_draw_selects_a_token_without_probability_or_none_at_all():
    logits = np.array([[-1e9, 0, 0, -1e9], [-1e9, -1e9, -1e9, 0], [0, -1e9, -1e9, -1e9]], "float32")
    for draw, expected in ((0, [1, 3, 0]), ((1 << DRAW_BITS) - 1, [2, 3, 0])):
        np.testing.assert_array_equal(samples_of(logits, np.full(3, draw)), expected)


def test_no_gradient_flows_through_a_sample(rng):
    logits = rng.normal(0, 1, (5, 9)).astype("float32")
    draws = ops.convert_to_tensor(rng.integers(0, 1 << DRAW_BITS, 5), dtype="int32")

    def times_sample(logits):
        return logits * ops.cast(sample_tokens(logits, draws), "float32")[:, None]

    _, gradient = value_and_gradients(times_sample, np.ones((5, 9)), logits)
    np.testing.assert_allclose(gradient, np.broadcast_to(samples_of(logits, draws)[:, None], (5, 9)))
