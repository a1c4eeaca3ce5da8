"""Dropout on TensorFlow, of numbers and in attention: its gradients, shapes and what it retains."""

import numpy as np
import pytest
from helpers.gradients import TOLERANCES, rounded, value_and_gradients

pytestmark = pytest.mark.backend("tensorflow")


def softmax(scores):
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_attention_with_dropped_probabilities_has_the_values_and_gradients_of_the_formula(dtype, rng):
    from keras_bert_rebuild.kernels.tensorflow_dropout import attend_with_dropout, kept, row_words

    query, key, value, upstream = (rounded(rng.standard_normal((2, 6, 3, 4)), dtype) for _ in range(4))
    mask = np.arange(6) < np.array([6, 4])[:, None]
    words = row_words((2, 3, 6, 6), (3, 1))
    keep = kept(words, 6, 0.25).numpy()
    assert 0 < keep.mean() < 1
    answers = value_and_gradients(
        lambda q, k, v: attend_with_dropout(q, k, v, mask[:, None, None, :], words, 0.25),
        upstream,
        query,
        key,
        value,
        dtype=dtype,
    )
    # For a softmax of z with probabilities p: dz = p · (dp − Σ p dp).
    q, k, v, out = (np.float64(x).transpose(0, 2, 1, 3) for x in (query, key, value, upstream))
    probabilities = softmax(np.where(mask[:, None, None, :], q @ k.swapaxes(2, 3) / 2, -np.inf))
    dropped = np.where(keep, probabilities / 0.75, 0)
    of_probabilities = np.where(keep, out @ v.swapaxes(2, 3) / 0.75, 0)
    of_scores = probabilities * (of_probabilities - (probabilities * of_probabilities).sum(-1, keepdims=True)) / 2
    expected = (dropped @ v, of_scores @ k, of_scores.swapaxes(2, 3) @ q, dropped.swapaxes(2, 3) @ out)
    for a, b in zip(answers, expected, strict=True):
        np.testing.assert_allclose(a, b.transpose(0, 2, 1, 3), rtol=10 * TOLERANCES[dtype], atol=2 * TOLERANCES[dtype])


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_is_the_same_dropout(shape, compiled):
    import tensorflow as tf

    from keras_bert_rebuild.kernels.tensorflow_dropout import drop

    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = drop(x, 0.3, (3, 1))
        return value, tape.gradient(value, x)

    value, gradient = (tf.function(both, jit_compile=True) if compiled else both)(tf.fill(shape, 2.0))
    assert value.shape == shape
    np.testing.assert_allclose(gradient * 2, value, rtol=1e-6)
    assert set(np.round(np.ravel(value), 4)) <= {0, np.float32(round(2 / 0.7, 4))}


@pytest.mark.parametrize("noise_shape", [(None, 1, None), (None, None, 1), (2, 1, 4), (1, 3, 4), (None, 1, 1)])
def test_a_mask_of_a_noise_shape_is_broadcast_for_any_batch_size(noise_shape):
    import tensorflow as tf

    from keras_bert_rebuild.kernels.tensorflow_dropout import drop

    run = tf.function(lambda x: drop(x, 0.5, (3, 1), noise_shape), input_signature=[tf.TensorSpec((None, None, 4))])
    kept = run(tf.ones((2, 3, 4))).numpy() != 0
    shared = tuple(axis for axis, size in enumerate(noise_shape) if size == 1)
    assert (kept.all(shared) == kept.any(shared)).all()
    rows = tf.function(lambda x: drop(x, 0.5, (3, 1), (None, 1)), input_signature=[tf.TensorSpec((None, 4))])
    assert 0 < (rows(tf.ones((500, 4))).numpy() != 0).mean() < 1
