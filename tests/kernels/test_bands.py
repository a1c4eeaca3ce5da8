"""Attention within a window in bands is that over all pairs, whatever the length, the window and the padding."""

from unittest import mock

import keras
import numpy as np
import pytest
from helpers.kernel_checks import plain
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_bert_rebuild.kernels import bands
from keras_bert_rebuild.kernels.bands import WINDOWS, attend_in_bands
from keras_bert_rebuild.layers import MultiHeadSelfAttention

pytestmark = pytest.mark.backend

BACKEND = keras.config.backend()
# Of 65,536 numbers less than one is dropped on average.
NEARLY_NONE = 1e-9
# The number of windows beyond which bands are used.
IN_BANDS, AS_A_WHOLE = 0, 1000


def attended(windows, layer, *arguments):
    """Attention in bands, of all pairs, or in the plain form."""
    if windows is None:
        return plain(layer.attend, *arguments)
    with mock.patch.object(bands, "WINDOWS", windows):
        return layer.attend(*arguments)


def built(heads, width, **options):
    layer = MultiHeadSelfAttention(heads, **options)
    layer.build((None, None, heads * width))
    return layer


def by_hand(query, key, value, mask, window, causal):
    """The definition in NumPy, one query at a time; the mask is `(batch, length, length)`."""
    outputs = np.zeros_like(query)
    for row, i, head in np.ndindex(*query.shape[:3]):
        keys = [j for j in range(query.shape[1]) if abs(i - j) <= window and mask[row, i, j] and not (causal and j > i)]
        if keys:
            scores = np.exp(key[row, keys, head] @ query[row, i, head] / query.shape[-1] ** 0.5)
            outputs[row, i, head] = scores @ value[row, keys, head] / scores.sum()
    return outputs


def qkv(rng, length, batch=2, heads=2, width=4):
    return [rng.standard_normal((batch, length, heads, width)) for _ in range(3)]


# A shape costs a compilation on JAX.
@pytest.mark.slow
@settings(max_examples=5 if BACKEND == "jax" else 25, deadline=None)
@given(
    length=st.integers(1, 19),
    window=st.integers(0, 7),
    causal=st.booleans(),
    of_pairs=st.booleans(),
    padding=st.sampled_from(["none", "left", "right", "middle", "all"]),
    seed=st.integers(0, 99),
)
def test_all_forms_are_the_definition(length, window, causal, of_pairs, padding, seed):
    rng = np.random.default_rng(seed)
    cut = rng.integers(0, length + 1)
    real = np.ones((2, length), bool)
    real[1] = {
        "none": np.ones(length, bool),
        "left": np.arange(length) >= cut,
        "right": np.arange(length) < cut,
        "middle": np.abs(np.arange(length) - cut) > 2,
        "all": np.zeros(length, bool),
    }[padding]
    pairs = np.broadcast_to(real[:, None], (2, length, length))
    pairs = pairs & (rng.random(pairs.shape) < 0.7) if of_pairs else pairs
    arrays = qkv(rng, length)
    expected = by_hand(*arrays, pairs, window, causal)
    tensors = [ops.convert_to_tensor(array, dtype="float32") for array in arrays]
    layer = built(2, 4, window=window, history_only=causal)
    mask = layer.checked(ops.convert_to_tensor(pairs[:, None] if of_pairs else real), tensors[0])
    for form in (IN_BANDS, AS_A_WHOLE, None):
        got = ops.convert_to_numpy(attended(form, layer, *tensors, mask))
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.slow
def test_dropout_drops_probabilities_and_preserves_their_mean(rng):
    ones = ops.ones((2, 400, 4, 4))
    layer = built(4, 4, window=8, attention_dropout=0.5)
    found = ops.convert_to_numpy(layer.attend(ones, ones, ones, ops.ones((2, 400), dtype="bool"), True))[..., 0]
    assert found.mean() == pytest.approx(1, abs=0.02)
    # 17 keys of which each counts with 0 or 2 / 17, and no two heads have the same.
    assert found[:, 8:-8].std() == pytest.approx(17**-0.5, rel=0.05)
    assert np.abs(found[:, :, 0] - found[:, :, 1]).max() > 0.1


def test_bands_are_used_for_long_texts_only():
    def keys(length, of_pairs=False):
        """How many keys a query is compared with."""
        seen, x = [], ops.zeros((1, length, 2, 4))
        mask = ops.ones((1, 1, length, length) if of_pairs else (1, length), "bool")
        rest = lambda layer, query, key, *others: seen.append(key.shape[1]) or query  # noqa: E731
        attend_in_bands(rest, built(2, 4, window=3), x, x, x, mask)
        return seen

    assert keys(WINDOWS * 3 + 1) == [9]
    assert keys(WINDOWS * 3) == [WINDOWS * 3]
    assert keys(WINDOWS * 3 + 1, of_pairs=True) == [WINDOWS * 3 + 1]


@pytest.mark.slow
def test_a_compiled_function_of_any_length_gives_the_same(rng):
    layer = MultiHeadSelfAttention(2, window=2)
    layer.build((None, None, 8))
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, layer(inputs))
    for length in (1, 9, 21):
        x = rng.standard_normal((2, length, 8)).astype("float32")
        mask = np.arange(length) < np.array([length, 1])[:, None]
        expected = ops.convert_to_numpy(plain(layer, x))
        np.testing.assert_allclose(model.predict_on_batch(x), expected, atol=1e-5)
        masked = ops.convert_to_numpy(layer(x, mask=ops.convert_to_tensor(mask)))
        alone = ops.convert_to_numpy(layer(x[1:, :1]))
        np.testing.assert_allclose(masked[1, 0], alone[0, 0], atol=1e-5)


@pytest.mark.backend("tensorflow")
@pytest.mark.slow
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("rate", [0.0, NEARLY_NONE], ids=["inference", "dropout"])
def test_a_graph_of_unknown_length_has_both_forms_and_their_gradients(rate, jit, rng):
    import tensorflow as tf

    layer = built(2, 4, window=2, attention_dropout=rate)

    def gradients(query, key, value, mask):
        with tf.GradientTape() as tape:
            tape.watch(query)
            found = layer.attend(query, key, value, mask, True)
            loss = tf.reduce_sum(found**3)
        return found, tape.gradient(loss, query)

    signature = [tf.TensorSpec((None, None, 2, 4))] * 3 + [tf.TensorSpec((None, None), "bool")]
    traced = tf.function(gradients, input_signature=signature, jit_compile=jit, autograph=False)
    for length in (1, 9):
        tensors = [tf.constant(array, "float32") for array in qkv(rng, length)]
        mask = tf.constant(np.arange(length) < np.array([length, max(length - 4, 1)])[:, None])
        for one, other in zip(traced(*tensors, mask), gradients(*tensors, mask), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
