"""Dropout on JAX, of numbers and in attention: its bits, its gradients, and what it retains."""

import numpy as np
import pytest

pytestmark = pytest.mark.backend("jax")


def words_of(shape, *seed):
    from keras_bert_rebuild.kernels.jax_dropout import row_words

    return row_words(shape, np.array(seed, "uint32"))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_the_gradient_is_the_same_dropout(shape):
    import jax

    from keras_bert_rebuild.kernels.jax_dropout import drop

    x, seed = np.full(shape, 2.0, "float32"), np.array([3, 1], "uint32")
    value, gradient = jax.jit(lambda x: (drop(x, 0.3, seed), jax.grad(lambda x: drop(x, 0.3, seed).sum())(x)))(x)
    assert value.shape == shape
    np.testing.assert_allclose(gradient * 2, value, rtol=1e-6)
    assert set(np.round(np.ravel(value), 4)) <= {0, np.float32(round(2 / 0.7, 4))}


@pytest.mark.slow
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
        x = jax_dropout.attention_with_dropout(x, x, x, mask, 0.1, seed)
        return jax_dropout.drop(x, 0.1, seed)

    retained = jax.tree.leaves(jax.vjp(run, x)[1])
    assert max(leaf.size for leaf in retained) <= x.size
    assert sum(leaf.size for leaf in retained) < 5 * x.size
