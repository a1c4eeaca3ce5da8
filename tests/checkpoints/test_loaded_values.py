"""Loading values takes no second copy of the model, and the loaded variables work like any other."""

import os
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert_rebuild.kernels import handed_over, unwritten
from keras_bert_rebuild.kernels.traits import ALIGNMENT, aligned_array

pytestmark = pytest.mark.backend

MEBIBYTE = 2**20


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_unwritten_value_has_shape_and_dtype(dtype):
    variable = keras.Variable(lambda shape, dtype: unwritten(shape, dtype), shape=(5, 3), dtype=dtype)
    assert tuple(variable.shape) == (5, 3)
    assert variable.dtype == dtype


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the resident set is read from /proc")
def test_an_unwritten_variable_takes_no_memory():
    keras.Variable(np.ones((100, 100), "float32"))  # starts the backend
    before = resident_bytes()
    variable = keras.Variable(lambda shape, dtype: unwritten(shape, dtype), shape=(32, MEBIBYTE), dtype="float32")
    assert tuple(variable.shape) == (32, MEBIBYTE)
    assert resident_bytes() - before < 32 * MEBIBYTE  # of 128


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2).T, np.arange(7.0)[1:].reshape(2, 3)])
def test_a_variable_holds_the_given_array(array):
    expected = array.astype("float32")
    variable = keras.Variable(lambda shape, dtype: unwritten(shape, dtype), shape=(2, 3), dtype="float32")
    variable.assign(handed_over(array.astype("float32", order="K")))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable.value), expected)


def test_a_variable_over_a_given_array_trains_like_any_other():
    weights = []
    for kernel in (handed_over(aligned_array((4, 1), "float32") + 1), np.ones((4, 1), "float32")):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False)])
        model.layers[0].kernel.assign(kernel)
        model.compile("adam", "mse")
        model.fit(np.eye(4, dtype="float32"), np.arange(4.0).reshape(4, 1), batch_size=2, epochs=3, shuffle=False, verbose=0)
        weights.append(model.get_weights()[0])
    np.testing.assert_array_equal(*weights)
    assert np.abs(weights[0] - 1).max() > 1e-3


def test_aligned_arrays_start_where_backends_need_no_copy():
    arrays = [aligned_array((n,), "float32") for n in range(1, 20)]
    assert all(array.ctypes.data % ALIGNMENT == 0 for array in arrays)
    assert not any(array.any() for array in arrays)


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
