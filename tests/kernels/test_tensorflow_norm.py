"""Layer normalisation on TensorFlow: values and gradients of the definition in float64, on a processor and in the other form."""

import numpy as np
import pytest
from kernels.test_jax_norm import EPSILON, by_definition

pytestmark = pytest.mark.backend("tensorflow")


def outputs_and_gradients(x, gamma, beta, upstream, axis=-1):
    import tensorflow as tf

    from keras_bert_rebuild.kernels import tensorflow_norm

    inputs = [x, gamma, beta]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = tensorflow_norm.normalize(*inputs, axis, EPSILON)
    return [outputs, *tape.gradient(outputs, inputs, upstream)]


@pytest.fixture(params=[True, False], ids=["on a processor", "elsewhere"])
def processor(request, monkeypatch):
    from keras_bert_rebuild.kernels import tensorflow_norm

    monkeypatch.setattr(tensorflow_norm, "_is_on_processor", lambda: request.param)
    monkeypatch.setattr(tensorflow_norm, "WIDE", 1)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("shape", [(2, 6, 64), (7, 5), (1, 3, 1, 96), (13, 8)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-6), ("bfloat16", 4e-3), ("float16", 5e-4)])
def test_values_and_gradients_are_those_of_the_definition(shape, dtype, tolerance, rng):
    import tensorflow as tf

    x, upstream = (tf.cast(3 + rng.standard_normal(shape), dtype) for _ in range(2))
    gamma, beta = (tf.cast(rng.standard_normal(shape[-1]), "float64" if dtype == "float64" else "float32") for _ in range(2))
    found, expected = outputs_and_gradients(x, gamma, beta, upstream), by_definition(x, gamma, beta, upstream)
    assert [array.dtype for array in found] == [x.dtype, x.dtype, gamma.dtype, gamma.dtype]
    for one, other in zip(found, expected, strict=True):
        assert np.linalg.norm(np.asarray(one, "float64") - other) <= tolerance * (np.linalg.norm(other) + 1e-6)


@pytest.mark.usefixtures("processor")
def test_lengths_may_be_unknown_and_axes_may_be_several(rng):
    import tensorflow as tf

    x, upstream = (rng.standard_normal((2, 4, 6)).astype("float32") for _ in range(2))
    gamma, beta = (rng.standard_normal(6).astype("float32") for _ in range(2))
    unknown = [tf.TensorSpec((None, None, 6)), tf.TensorSpec((6,)), tf.TensorSpec((6,)), tf.TensorSpec((None, None, 6))]
    traced = tf.function(outputs_and_gradients, input_signature=unknown, autograph=False)
    for one, other in zip(traced(x, gamma, beta, upstream), by_definition(x, gamma, beta, upstream), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    ones = [tf.ones((4, 6)), tf.zeros((4, 6))]
    both = outputs_and_gradients(tf.constant(x), *ones, tf.constant(upstream), (1, 2))
    flat = by_definition(x.reshape(2, 24), np.ones(24), np.zeros(24), upstream.reshape(2, 24))
    for one, other in zip(both, flat, strict=True):
        np.testing.assert_allclose(np.reshape(one, np.shape(other)), other, rtol=0, atol=1e-5)


def test_a_row_with_large_numbers_keeps_its_variance(rng):
    import tensorflow as tf

    x = 1e4 + rng.standard_normal((4, 512))
    outputs = outputs_and_gradients(tf.cast(x, "float32"), tf.ones(512), tf.zeros(512), tf.ones((4, 512)))[0]
    np.testing.assert_allclose(outputs, by_definition(x, np.ones(512), np.zeros(512), x)[0], rtol=0, atol=3e-3)
