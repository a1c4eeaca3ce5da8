"""Values and gradients by an input, against what a pencil gives; weights of a model inside keep none."""

import keras
import numpy as np
import pytest
from keras import ops

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
