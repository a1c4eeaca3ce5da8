"""Layer normalisation in kernels of JAX, interpreted, and TensorFlow: values and gradients of the definition in float64."""

import functools
import re

import numpy as np
import pytest
from helpers.kernel_checks import PROCESSOR, gpu, pretend
from helpers.other_process import printed_json
from kernels.test_jax_flash import lowers_to_triton

from keras_bert_rebuild.layers.seam import kernel_of

pytestmark = pytest.mark.backend

EPSILON = 1e-5


def by_definition(x, gamma, beta, upstream):
    """Outputs and gradients in NumPy, in float64."""
    x, gamma, beta, upstream = (np.asarray(array, "float64") for array in (x, gamma, beta, upstream))
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    normal, weighted = (x - x.mean(-1, keepdims=True)) / deviation, upstream * gamma
    along = (weighted * normal).mean(-1, keepdims=True)
    of_x = (weighted - weighted.mean(-1, keepdims=True) - normal * along) / deviation
    rows = tuple(range(x.ndim - 1))
    return normal * gamma + beta, of_x, (upstream * normal).sum(rows), upstream.sum(rows)


@functools.cache
def compiled():
    import jax

    from keras_bert_rebuild.kernels import jax_norm

    @jax.jit
    def run(x, gamma, beta, upstream):
        outputs, gradients = jax.vjp(lambda *arrays: jax_norm.normalize(*arrays, -1, EPSILON, interpret=True), x, gamma, beta)
        return outputs, *gradients(upstream)

    return run


# The smallest part, several parts, a power of two, an odd number of rows, more rows than all programs of the backward pass take.
@pytest.mark.backend("jax")
@pytest.mark.parametrize("shape", [(2, 6, 64), (1, 5, 192), (3, 4, 128), (7, 64), (2, 1, 1, 320), (391, 4, 64)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("bfloat16", 4e-3), ("float16", 5e-4)])
def test_values_and_gradients_are_those_of_the_definition(shape, dtype, tolerance, rng):
    import jax.numpy as jnp

    x, upstream = (jnp.asarray(3 + rng.standard_normal(shape), dtype) for _ in range(2))
    gamma, beta = (jnp.asarray(rng.standard_normal(shape[-1]), "float32") for _ in range(2))
    found, expected = compiled()(x, gamma, beta, upstream), by_definition(x, gamma, beta, upstream)
    assert [array.dtype.name for array in found] == [dtype, dtype, "float32", "float32"]
    for one, other in zip(found, expected, strict=True):
        assert np.linalg.norm(np.asarray(one, "float64") - other) <= tolerance * np.linalg.norm(other)


@pytest.mark.backend("jax")
def test_what_it_does_not_take_has_the_plain_form(monkeypatch):
    import jax

    from keras_bert_rebuild.kernels import jax_norm, jax_trials
    from keras_bert_rebuild.layers import LayerNormalization

    def chosen(shape, axis=-1):
        layer = LayerNormalization(axis=axis, dtype="mixed_bfloat16")
        layer.build(shape)
        kernel = kernel_of(LayerNormalization.call, layer, jax.ShapeDtypeStruct(shape, "bfloat16"), True)
        return kernel is not None

    monkeypatch.setattr(jax_norm, "normalize", functools.partial(jax_norm.normalize, interpret=True))
    jax_trials.norm_is_right.cache_clear()
    pretend(monkeypatch, PROCESSOR)
    assert not chosen((2, 6, 64))
    pretend(monkeypatch, gpu("8.0"))
    assert chosen((2, 6, 64))
    assert chosen((2, 6, 768), axis=(2,))
    assert not chosen((2, 6, 64), axis=1)
    assert not chosen((2, 6, 96))
    assert not chosen((2, 6, 16384))
    assert not chosen((0, 6, 64))
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    assert not chosen((2, 6, 64))
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    pretend(monkeypatch, gpu("7.0"))
    assert not chosen((2, 6, 64))
    jax_trials.norm_is_right.cache_clear()


@pytest.mark.backend("jax")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda outputs: outputs * np.nan, "computed outputs that differ by nan"),
        (lambda outputs: outputs * 1.03, r"computed outputs that differ by 0\.03"),
        (lambda outputs: outputs.reshape(0), r"failed: \w+: "),
    ],
)
def test_a_kernel_that_is_wrong_on_this_gpu_is_not_used(wrong, message, monkeypatch):
    from keras_bert_rebuild.kernels import jax_norm, jax_trials

    right = jax_norm.normalize
    monkeypatch.setattr(jax_norm, "normalize", lambda *arguments: wrong(right(*arguments, interpret=True)))
    jax_trials.norm_is_right.cache_clear()
    with pytest.warns(UserWarning, match=f"layer normalisation does not use its own kernel for this GPU, since it {message}"):
        assert not jax_trials.norm_is_right("float32", 64)
    jax_trials.norm_is_right.cache_clear()


@pytest.mark.backend("jax")
@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 768), ("float32", 1024)])
def test_it_lowers_to_triton_for_cuda(dtype, width):
    import jax

    from keras_bert_rebuild.kernels import jax_norm

    lowers_to_triton()

    def step(*arrays):
        return jax.grad(lambda *arrays: jax_norm.normalize(*arrays, -1, EPSILON).astype("float32").sum(), (0, 1, 2))(*arrays)

    weight = jax.ShapeDtypeStruct((width,), "float32")
    arguments = jax.ShapeDtypeStruct((2, 16, width), dtype), weight, weight
    unchecked = [jax.export.DisabledSafetyCheck.custom_call(name) for name in ("__gpu$xla.gpu.triton", "triton_kernel_call_ffi")]
    exported = jax.export.export(jax.jit(step), platforms=["cuda"], disabled_checks=unchecked)(*arguments)
    assert set(re.findall(r"layer_norm_\w+", exported.mlir_module())) == {
        "layer_norm_forward_kernel",
        "layer_norm_backward_kernel",
    }


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
def test_two_devices_compute_their_rows_of_the_batch_and_add_their_gradients_of_the_weights():
    apart = printed_json("kernels_over_devices.py", "norm", devices=2)
    assert apart["devices"] == 2
    assert max(apart["differences"]) < 1e-5


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


@pytest.mark.backend("tensorflow")
@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("shape", [(2, 6, 64), (7, 5), (1, 3, 1, 96), (13, 8)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-6), ("bfloat16", 4e-3), ("float16", 5e-4)])
def test_values_and_gradients_on_tensorflow_are_those_of_the_definition(shape, dtype, tolerance, rng):
    import tensorflow as tf

    x, upstream = (tf.cast(3 + rng.standard_normal(shape), dtype) for _ in range(2))
    gamma, beta = (tf.cast(rng.standard_normal(shape[-1]), "float64" if dtype == "float64" else "float32") for _ in range(2))
    found, expected = outputs_and_gradients(x, gamma, beta, upstream), by_definition(x, gamma, beta, upstream)
    assert [array.dtype for array in found] == [x.dtype, x.dtype, gamma.dtype, gamma.dtype]
    for one, other in zip(found, expected, strict=True):
        assert np.linalg.norm(np.asarray(one, "float64") - other) <= tolerance * (np.linalg.norm(other) + 1e-6)


@pytest.mark.backend("tensorflow")
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


@pytest.mark.backend("tensorflow")
def test_a_row_with_large_numbers_keeps_its_variance(rng):
    import tensorflow as tf

    x = 1e4 + rng.standard_normal((4, 512))
    outputs = outputs_and_gradients(tf.cast(x, "float32"), tf.ones(512), tf.zeros(512), tf.ones((4, 512)))[0]
    np.testing.assert_allclose(outputs, by_definition(x, np.ones(512), np.zeros(512), x)[0], rtol=0, atol=3e-3)
