"""`Lamb` against its formula in NumPy."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import JIT, check_against_numpy, value

from keras_bert_rebuild import AdamW
from keras_bert_rebuild.training.optimizers.lamb import Lamb


@pytest.mark.parametrize("jit_compile", JIT[keras.backend.backend()])
@pytest.mark.parametrize("accumulated", [1, 3])
def test_ten_steps_are_those_of_numpy(rng, accumulated, jit_compile):
    check_against_numpy(Lamb, rng, accumulated, jit_compile)


def one_step(optimizer, start, gradient, name="kernel"):
    variable = keras.Variable(start.astype("float32"), name=name)
    optimizer.build([variable])
    optimizer.apply([gradient.astype("float32")])
    return value(variable)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_step_is_as_long_as_the_rate_times_the_weight(rng, scale):
    start, gradient = rng.normal(size=(4, 5)), rng.normal(size=(4, 5)) * scale
    moved = one_step(Lamb(0.01, weight_decay=0.1), start, gradient)
    assert np.linalg.norm(moved - start) == pytest.approx(0.01 * np.linalg.norm(start), rel=1e-4)


def test_the_ratio_is_one_where_a_norm_is_zero():
    np.testing.assert_allclose(one_step(Lamb(0.1), np.zeros(3), np.ones(3)), -0.1, rtol=1e-5)
    still = one_step(Lamb(0.1, weight_decay=0.0), np.ones(3), np.zeros(3))
    np.testing.assert_array_equal(still, 1.0)
    np.testing.assert_array_equal(one_step(Lamb(0.0), np.ones(3), np.ones(3)), 1.0)


def test_biases_and_norms_take_steps_of_adam_without_decay(rng):
    start, gradient = rng.normal(size=6), rng.normal(size=6)
    for name in ("bias", "gamma", "beta"):
        ours = one_step(Lamb(0.1, weight_decay=0.5), start, gradient, name)
        # Not bit by bit: AdamW is one kernel on TensorFlow.
        np.testing.assert_allclose(ours, one_step(AdamW(0.1, weight_decay=0.0), start, gradient, name), rtol=1e-6)
