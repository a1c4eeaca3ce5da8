"""Dropout on JAX and TensorFlow, of numbers and in attention: the hash of its bits, its gradients, and what it retains."""

import importlib

import keras
import numpy as np
import pytest
from helpers.kernel_checks import TOLERANCES, rounded, value_and_gradients
from keras import ops

from keras_bert_rebuild.kernels.row_hash import gain_of, threshold
from keras_bert_rebuild.layers import Dropout

pytestmark = pytest.mark.backend

BACKEND = keras.config.backend()


def of_backend(name):
    return getattr(importlib.import_module(f"keras_bert_rebuild.kernels.{BACKEND}_dropout"), name)


def words_of(shape, *seed):
    return of_backend("row_words")(shape, ops.convert_to_tensor(np.array(seed, "uint32")))


def kept(words, columns, rate):
    found = of_backend("kept")(words, columns, rate)
    return np.asarray(found[0] if BACKEND == "jax" else found)


def bits(shape, rate, *seed):
    return kept(words_of(shape, *seed), shape[-1], rate)


@pytest.mark.backend("jax", "tensorflow")
@pytest.mark.parametrize("rate", [1e-9, 0.1, 0.5, 1 - 1e-12])
def test_the_bits_are_those_of_the_hash_in_integers_of_python(rate):
    words = np.asarray(words_of((3, 5, 40), 3, 1))

    def retained(step, start, column):
        x = (start + column * step) % 2**32
        x = ((x ^ x >> 16) * 0x7FEB352D) % 2**32
        x = ((x ^ x >> 15) * 0x846CA68B) % 2**32
        return x >= rate * 2**32

    pairs = [[int(word) for word in pair] for pair in words.reshape(2, -1).T]
    expected = np.reshape([[retained(*pair, column) for column in range(40)] for pair in pairs], (3, 5, 40))
    np.testing.assert_array_equal(kept(words, 40, rate), expected)
    assert (words[0] % 2 == 1).all()
    assert gain_of(0.5) == 2
    assert threshold(1e-12) == 0
    assert gain_of(1e-12) == 1


@pytest.mark.backend("jax", "tensorflow")
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_bits_are_kept_at_the_rate_in_every_row_and_column(rate):
    keep = bits((512, 512), rate, 3, 0)
    deviation = (rate * (1 - rate)) ** 0.5
    assert keep.mean() == pytest.approx(1 - rate, abs=4 * deviation / 512)
    for axis in (0, 1):
        # The means of rows and of columns spread as those of independent numbers do.
        assert keep.mean(axis).std() == pytest.approx(deviation / 512**0.5, rel=0.15)


@pytest.mark.backend("jax", "tensorflow")
def test_neighbours_rows_and_steps_are_not_correlated():
    one, other, rerun = (bits((400, 500), 0.5, 3, step) * 2.0 - 1 for step in (0, 1, 0))
    np.testing.assert_array_equal(one, rerun)
    limit = 4 / one.size**0.5
    for a, b in ((one, other), (one[:-1], one[1:]), (one[:, :-1], one[:, 1:]), (one[:, :-128], one[:, 128:])):
        assert abs((a * b).mean()) < limit
    assert abs((one * (bits((400, 500), 0.5, 4, 0) * 2.0 - 1)).mean()) < limit


@pytest.mark.backend("jax", "tensorflow")
def test_bits_deviate_from_independent_ones_by_no_more_than_chance():
    """Products of two and three bits, columns and rows apart, and the spread of the sums of rows and of columns."""
    rate, found = 0.1, []
    spread = (rate * (1 - rate)) ** 0.5
    for seed in range(4):
        numbers = (bits((1000, 512), rate, seed, 1) - (1 - rate)) / spread
        for apart in (1, 2, 3, 4, 8, 16, 32, 64, 128, 256):
            for product in (numbers[:, apart:] * numbers[:, :-apart], numbers[apart:] * numbers[:-apart]):
                found.append(product.sum() / product.size**0.5)
        for product in (numbers, numbers[:, 2:] * numbers[:, 1:-1] * numbers[:, :-2]):
            found.append(product.sum() / product.size**0.5)
        for axis in (0, 1):
            sums = numbers.sum(axis) / numbers.shape[axis] ** 0.5
            found.append((sums.var() - 1) * (len(sums) / 2) ** 0.5)
    assert np.abs(found).max() < 4
    assert np.std(found) == pytest.approx(1, abs=0.3)
    assert np.mean(found) == pytest.approx(0, abs=0.4)


@pytest.mark.backend("jax", "tensorflow")
def test_a_part_of_a_batch_has_the_bits_of_the_whole():
    """So a device can compute those of its own examples."""
    whole, part = words_of((8, 4, 16), 3, 0), words_of((8, 4, 16), 3, 0)[:, 2:4]
    np.testing.assert_array_equal(kept(whole, 16, 0.3)[2:4], kept(part, 16, 0.3))


@pytest.mark.backend("jax", "tensorflow")
def test_every_call_draws_other_numbers_and_advances_the_seed_as_keras_does():
    x, layer, keras_seeds = np.ones((64, 64), "float32"), Dropout(0.5, seed=3), keras.random.SeedGenerator(3)
    one, other = (np.asarray(layer.drop(x)) for _ in range(2))
    assert 0.4 < (one != other).mean() < 0.6
    for _ in range(2):
        keras.random.dropout(x, 0.5, seed=keras_seeds)
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), keras_seeds.state.numpy())


def jax_words(shape, *seed):
    from keras_bert_rebuild.kernels.jax_dropout import row_words

    return row_words(shape, np.array(seed, "uint32"))


@pytest.mark.backend("jax")
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_the_gradient_on_jax_is_the_same_dropout(shape):
    import jax

    from keras_bert_rebuild.kernels.jax_dropout import drop

    x, seed = np.full(shape, 2.0, "float32"), np.array([3, 1], "uint32")
    value, gradient = jax.jit(lambda x: (drop(x, 0.3, seed), jax.grad(lambda x: drop(x, 0.3, seed).sum())(x)))(x)
    assert value.shape == shape
    np.testing.assert_allclose(gradient * 2, value, rtol=1e-6)
    assert set(np.round(np.ravel(value), 4)) <= {0, np.float32(round(2 / 0.7, 4))}


@pytest.mark.backend("jax")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_has_the_values_and_gradients_of_the_formula_for_the_same_bits(rng, dtype):
    import jax
    import jax.numpy as jnp

    from keras_bert_rebuild.kernels import jax_dropout

    query, key, value, upstream = (jnp.asarray(rng.normal(size=(2, 3, 7, 8)), dtype) for _ in range(4))
    mask = np.arange(7) < np.array([7, 4])[:, None, None, None]
    words = jax_words((2, 3, 7, 7), 3, 0)
    keep, gain = jax_dropout.kept(words, 7, 0.3)

    def formula(query, key, value):
        query, key, value = (x.astype("float32") for x in (query, key, value))
        scores = jnp.where(mask, jnp.einsum("bhlk,bhsk->bhls", query, key) / 8**0.5, -1e30)
        return jnp.einsum("bhls,bhsk->bhlk", jnp.where(keep, jax.nn.softmax(scores) * gain, 0), value)

    def kernel(query, key, value):
        return jax_dropout.attend_with_dropout(query, key, value, mask, words, 0.3)

    found, expected = (jax.vjp(form, query, key, value) for form in (kernel, formula))
    found, expected = ((found[0], *found[1](upstream)), (expected[0], *expected[1](upstream.astype("float32"))))
    tolerance = 2e-6 if dtype == "float32" else 4e-2
    for one, other in zip(found, expected, strict=True):
        one, other = (np.asarray(x, "float32") for x in (one, other))
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(1, np.abs(other).max()))


@pytest.mark.backend("jax")
def test_nothing_of_the_size_of_the_scores_or_of_the_bits_is_retained():
    import jax

    from keras_bert_rebuild.kernels import jax_dropout

    x, seed, mask = np.ones((2, 32, 2, 8), "float32"), np.array([3, 1], "uint32"), np.ones((2, 1, 1, 32), bool)

    def run(x):
        x = jax_dropout.attention_with_dropout(x, x, x, mask, 0.1, seed)
        return jax_dropout.drop(x, 0.1, seed)

    retained = jax.tree.leaves(jax.vjp(run, x)[1])
    assert max(leaf.size for leaf in retained) <= x.size
    assert sum(leaf.size for leaf in retained) < 5 * x.size


def softmax(scores):
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


@pytest.mark.backend("tensorflow")
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


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_on_tensorflow_is_the_same_dropout(shape, compiled):
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


@pytest.mark.backend("tensorflow")
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
