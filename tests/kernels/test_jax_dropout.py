"""Dropout on JAX, of numbers and in attention: its bits, its gradients, and what it retains."""

import keras
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="a file of the JAX backend")


def words_of(shape, *seed):
    from keras_bert_rebuild.kernels.jax_dropout import row_words

    return row_words(shape, np.array(seed, "uint32"))


def kept(shape, rate, *seed):
    from keras_bert_rebuild.kernels.jax_dropout import kept

    return np.asarray(kept(words_of(shape, *seed), shape[-1], rate)[0])


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_bits_are_kept_at_the_rate_in_every_row_and_column(rate):
    keep = kept((512, 512), rate, 3, 0)
    deviation = (rate * (1 - rate)) ** 0.5
    assert keep.mean() == pytest.approx(1 - rate, abs=4 * deviation / 512)
    for axis in (0, 1):
        # The means of rows and of columns spread as those of independent numbers do.
        assert keep.mean(axis).std() == pytest.approx(deviation / 512**0.5, rel=0.15)


def test_neighbours_rows_and_steps_are_not_correlated():
    one, other, rerun = (kept((400, 500), 0.5, 3, step) * 2.0 - 1 for step in (0, 1, 0))
    np.testing.assert_array_equal(one, rerun)
    limit = 4 / one.size**0.5
    for a, b in ((one, other), (one[:-1], one[1:]), (one[:, :-1], one[:, 1:]), (one[:, :-128], one[:, 128:])):
        assert abs((a * b).mean()) < limit
    assert abs((one * (kept((400, 500), 0.5, 4, 0) * 2.0 - 1)).mean()) < limit


def test_bits_deviate_from_independent_ones_by_no_more_than_chance():
    """Products of two and three bits, columns and rows apart, and the spread of the sums of rows and of columns."""
    rate, found = 0.1, []
    spread = (rate * (1 - rate)) ** 0.5
    for seed in range(4):
        bits = (kept((1000, 512), rate, seed, 1) - (1 - rate)) / spread
        for apart in (1, 2, 3, 4, 8, 16, 32, 64, 128, 256):
            for product in (bits[:, apart:] * bits[:, :-apart], bits[apart:] * bits[:-apart]):
                found.append(product.sum() / product.size**0.5)
        for product in (bits, bits[:, 2:] * bits[:, 1:-1] * bits[:, :-2]):
            found.append(product.sum() / product.size**0.5)
        for axis in (0, 1):
            sums = bits.sum(axis) / bits.shape[axis] ** 0.5
            found.append((sums.var() - 1) * (len(sums) / 2) ** 0.5)
    assert np.abs(found).max() < 4
    assert np.std(found) == pytest.approx(1, abs=0.3)
    assert np.mean(found) == pytest.approx(0, abs=0.4)


def test_a_part_of_a_batch_has_the_bits_of_the_whole():
    """So a device can compute those of its own examples."""
    whole, part = words_of((8, 4, 16), 3, 0), words_of((8, 4, 16), 3, 0)[:, 2:4]
    from keras_bert_rebuild.kernels.jax_dropout import kept

    np.testing.assert_array_equal(kept(whole, 16, 0.3)[0][2:4], kept(part, 16, 0.3)[0])


def test_every_call_draws_other_numbers_and_advances_the_seed_as_keras_does():
    from keras_bert_rebuild import kernels

    x, seeds, keras_seeds = np.ones((64, 64), "float32"), keras.random.SeedGenerator(3), keras.random.SeedGenerator(3)
    one, other = (np.asarray(kernels.dropout(x, 0.5, seeds)) for _ in range(2))
    assert 0.4 < (one != other).mean() < 0.6
    for _ in range(2):
        keras.random.dropout(x, 0.5, seed=keras_seeds)
    np.testing.assert_array_equal(seeds.state.numpy(), keras_seeds.state.numpy())


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_the_gradient_is_the_same_dropout(shape):
    import jax

    from keras_bert_rebuild.kernels.jax_dropout import drop

    x, seed = np.full(shape, 2.0, "float32"), np.array([3, 1], "uint32")
    value, gradient = jax.jit(lambda x: (drop(x, 0.3, seed), jax.grad(lambda x: drop(x, 0.3, seed).sum())(x)))(x)
    assert value.shape == shape
    np.testing.assert_allclose(gradient * 2, value, rtol=1e-6)
    assert set(np.round(np.ravel(value), 4)) <= {0, np.float32(round(2 / 0.7, 4))}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_has_the_values_and_gradients_of_the_formula_for_the_same_bits(rng, dtype):
    import jax
    import jax.numpy as jnp

    from keras_bert_rebuild.kernels import jax_dropout

    query, key, value, upstream = (jnp.asarray(rng.normal(size=(2, 3, 7, 8)), dtype) for _ in range(4))
    mask = np.arange(7) < np.array([7, 4])[:, None, None, None]
    words = words_of((2, 3, 7, 7), 3, 0)
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


def test_nothing_of_the_size_of_the_scores_or_of_the_bits_is_retained():
    import jax

    from keras_bert_rebuild.kernels import jax_dropout

    x, seed, mask = np.ones((2, 32, 2, 8), "float32"), np.array([3, 1], "uint32"), np.ones((2, 1, 1, 32), bool)

    def run(x):
        x = jax_dropout.attention_with_dropout(x, x, x, mask, False, 0.1, seed)
        return jax_dropout.drop(x, 0.1, seed)

    retained = jax.tree.leaves(jax.vjp(run, x)[1])
    assert max(leaf.size for leaf in retained) <= x.size
    assert sum(leaf.size for leaf in retained) < 5 * x.size
