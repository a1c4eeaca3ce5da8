"""The first vector of every sequence of packed rows."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild.layers import ExtractFirsts

pytestmark = pytest.mark.backend

# Rows of 16 tokens have two outputs.
NUMBERS = np.array([[1] * 5 + [6] * 7 + [0] * 4, [1] * 16], "int32")


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_the_outputs_are_the_first_vectors_in_order(policy, rng):
    layer = ExtractFirsts(dtype=policy)
    x = rng.normal(size=(2, 16, 3)).astype("float32")
    y = layer(ops.convert_to_tensor(x), mask=ops.convert_to_tensor(NUMBERS))
    assert keras.backend.standardize_dtype(y.dtype) == layer.compute_dtype
    found, expected = (ops.convert_to_numpy(ops.cast(array, "float32")) for array in (y, ops.cast(x, layer.compute_dtype)))
    np.testing.assert_array_equal(found[0], expected[0, [0, 5]])
    np.testing.assert_array_equal(found[1, 0], expected[1, 0])
    assert ops.convert_to_numpy(y._keras_mask).tolist() == [[True, True], [True, False]]


def test_shapes_are_known_before_there_are_tensors():
    assert ExtractFirsts()(keras.Input((20, 3))).shape == (None, 3, 3)
    assert ExtractFirsts()(keras.Input((None, 3))).shape == (None, None, 3)


def test_gradients_reach_the_first_vectors_alone():
    numbers = ops.convert_to_tensor(NUMBERS)
    weights = ops.convert_to_tensor(np.array([[2.0, 3.0], [4.0, 0.0]], "float32")[..., None])

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.x = self.add_weight(shape=(2, 16, 3), initializer="ones")
            self.firsts = ExtractFirsts()

        def call(self, inputs):
            return ops.sum(self.firsts(self.x + inputs, mask=numbers) * weights, axis=(1, 2))

    model = Model()
    model.compile(keras.optimizers.SGD(1.0), lambda labels, outputs: outputs)
    model.train_on_batch(np.zeros((2, 16, 3), "float32"), np.zeros(2))
    expected = np.ones((2, 16, 3))
    expected[0, 0], expected[0, 5], expected[1, 0] = 1 - 2 / 2, 1 - 3 / 2, 1 - 4 / 2
    np.testing.assert_allclose(ops.convert_to_numpy(model.x), expected, atol=1e-6)


def test_more_sequences_than_outputs_give_nan():
    three = np.where(np.arange(16) < 6, np.arange(16) // 2 * 2 + 1, 0)[None].astype("int32")
    x = ops.ones((1, 16, 3))
    assert np.isnan(ops.convert_to_numpy(ExtractFirsts()(x, mask=ops.convert_to_tensor(three)))).all()
    two = np.where(three == 5, 0, three)
    assert ops.convert_to_numpy(ExtractFirsts()(x, mask=ops.convert_to_tensor(two))).tolist() == np.ones((1, 2, 3)).tolist()


def test_a_mask_without_numbers_is_refused():
    with pytest.raises(ValueError, match="must have sequence numbers as its mask"):
        ExtractFirsts()(ops.ones((1, 16, 3)), mask=ops.ones((1, 16), dtype="bool"))
