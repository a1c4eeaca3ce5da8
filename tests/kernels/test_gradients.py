"""Values and gradients by an input, against what a pencil gives, and the factor of a clipped norm, against NumPy."""

import keras
import numpy as np
import pytest
from helpers.kernel_checks import chosen_kernel
from helpers.small import compiled, small_batch, small_model
from keras import ops

from keras_bert_rebuild import AdamW
from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.gradients import value_and_gradient

pytestmark = pytest.mark.backend

X = np.array([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]], "float32")


def as_array(tensor):
    return ops.convert_to_numpy(tensor)


def test_the_gradient_of_a_sum_of_cubes_is_three_times_the_square():
    value, gradient = value_and_gradient(lambda x: ops.sum(x**3), X)
    np.testing.assert_allclose(as_array(value), (X**3).sum(), rtol=1e-6)
    np.testing.assert_allclose(as_array(gradient), 3 * X**2, rtol=1e-6)


def test_further_tensors_are_returned_and_not_differentiated():
    (value, more), gradient = value_and_gradient(lambda x: (ops.sum(x), {"squares": x * x}), X, auxiliary=True)
    assert float(value) == X.sum()
    np.testing.assert_array_equal(as_array(more["squares"]), X * X)
    np.testing.assert_array_equal(as_array(gradient), np.ones_like(X))


def test_a_structure_of_inputs_has_a_gradient_each_and_zeros_where_nothing_depends_on_it():
    inputs = {"used": X, "also": 2 * X, "unused": X}
    _, gradient = value_and_gradient(lambda x: ops.sum(x["used"] * x["also"]), inputs)
    np.testing.assert_array_equal(as_array(gradient["used"]), 2 * X)
    np.testing.assert_array_equal(as_array(gradient["also"]), X)
    np.testing.assert_array_equal(as_array(gradient["unused"]), np.zeros_like(X))


def test_a_value_that_depends_on_nothing_has_a_gradient_of_zeros():
    _, gradient = value_and_gradient(lambda x: ops.sum(ops.stop_gradient(x)), X)
    np.testing.assert_array_equal(as_array(gradient), np.zeros_like(X))


def test_a_model_inside_is_differentiated_and_keeps_no_gradients():
    dense = keras.layers.Dense(4, activation="tanh")
    dense.build((None, 3))
    value, gradient = value_and_gradient(lambda x: ops.sum(dense(x)), X)
    kernel = as_array(dense.kernel.value)
    slopes = 1 - np.tanh(X @ kernel) ** 2
    np.testing.assert_allclose(as_array(value), np.tanh(X @ kernel).sum(), rtol=1e-5)
    np.testing.assert_allclose(as_array(gradient), slopes @ kernel.T, rtol=1e-5, atol=1e-6)
    assert all(getattr(variable.value, "grad", None) is None for variable in dense.weights)


def test_a_value_that_is_not_a_scalar_is_refused():
    with pytest.raises(ValueError, match=r"scalar .* shape \(2, 3\)"):
        value_and_gradient(lambda x: x * 2, X)


BACKEND = keras.config.backend()
SMALL = 8192  # of `jax_operations`
SHAPES = [(3,), (300, 256), (), (SMALL,), (SMALL + 1,), (2, 5)]


def clip_factor(gradients, norm):
    """By the kernel of the backend, on JAX that for GPUs."""
    if BACKEND != "jax":
        return operations.clip_factor(gradients, norm)
    from keras_bert_rebuild.kernels import jax_operations

    assert jax_operations.SMALL == SMALL
    return jax_operations.clip_factor(None, gradients, norm)


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
        monkeypatch.setattr("keras_bert_rebuild.kernels.jax_operations.is_on_cuda", lambda capability=0.0: own and not capability)
        assert (chosen_kernel(operations.clip_factor, [ops.ones(3)], 0.01) is not None) == own
        keras.utils.set_random_seed(2)
        model = compiled(small_model(), optimizer=AdamW(0.01, global_clipnorm=0.01), max_predictions=4)
        return [model.train_on_batch(x, y)[0] for _ in range(3)]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)
