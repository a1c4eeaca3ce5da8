"""The factor of a clipped norm is that of NumPy, whatever the sizes and dtypes of the gradients."""

import keras
import numpy as np
import pytest
from helpers.plain_form import chosen
from helpers.small import compiled, small_batch, small_model
from keras import ops

from keras_bert_rebuild import AdamW
from keras_bert_rebuild.kernels import operations

pytestmark = pytest.mark.backend

BACKEND = keras.config.backend()
SMALL = 8192  # of `jax_gradients`
SHAPES = [(3,), (300, 256), (), (SMALL,), (SMALL + 1,), (2, 5)]


def clip_factor(gradients, norm):
    """By the kernel of the backend, on JAX that for GPUs."""
    if BACKEND != "jax":
        return operations.clip_factor(gradients, norm)
    from keras_bert_rebuild.kernels import jax_gradients

    assert jax_gradients.SMALL == SMALL
    return jax_gradients.clip_factor(None, gradients, norm)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("norm", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("shapes", [SHAPES, SHAPES[:1], SHAPES[1:2]], ids=["all", "small", "large"])
def test_the_factor_is_that_of_the_norm_of_all_gradients(shapes, norm, dtype, rng):
    gradients = [ops.cast(ops.convert_to_tensor(rng.standard_normal(shape), "float32"), dtype) for shape in shapes]
    arrays = [ops.convert_to_numpy(ops.cast(gradient, "float32")).astype("float64") for gradient in gradients]
    expected = min(1.0, norm / np.sqrt(sum((array**2).sum() for array in arrays)))
    factor = clip_factor(gradients, norm)
    assert keras.backend.standardize_dtype(factor.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(factor), expected, rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("size", [4, SMALL + 1])
def test_a_value_that_is_not_finite_makes_the_factor_nan(size, value):
    gradients = [ops.ones(3), ops.convert_to_tensor(np.append(np.ones(size - 1), value).astype("float32"))]
    assert np.isnan(ops.convert_to_numpy(clip_factor(gradients, 1.0)))


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "jax", reason="a file of the JAX backend")
def test_a_model_learns_the_same_as_with_the_clipping_of_keras(monkeypatch, rng):
    x, y = small_batch(rng)

    def losses(own):
        monkeypatch.setattr("keras_bert_rebuild.kernels.jax_gradients.is_on_cuda", lambda capability=0.0: own and not capability)
        assert (chosen(operations.clip_factor, [ops.ones(3)], 0.01) is not None) == own
        keras.utils.set_random_seed(2)
        model = compiled(small_model(), optimizer=AdamW(0.01, global_clipnorm=0.01), max_predictions=4)
        return [model.train_on_batch(x, y)[0] for _ in range(3)]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)
