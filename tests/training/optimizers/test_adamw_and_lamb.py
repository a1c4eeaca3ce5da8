"""`AdamW` and `Lamb` against their formulas in NumPy, and `AdamW` against torch's."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import JIT, check_against_numpy, train, value

from keras_bert_rebuild import AdamW
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb

pytestmark = pytest.mark.backend


@pytest.mark.parametrize("jit_compile", JIT[keras.backend.backend()])
@pytest.mark.parametrize("accumulated", [1, 3])
def test_ten_steps_are_those_of_numpy(rng, accumulated, jit_compile):
    check_against_numpy(AdamW, rng, accumulated, jit_compile)


@pytest.mark.parametrize("norm", [None, 0.5, 1e6])
def test_large_and_small_arrays_take_the_steps_of_numpy(rng, norm):
    # On TensorFlow each kind has its own kernel, which clips.
    shapes = {"kernel": (300, 256), "bias": (256,)}
    weights, *gradients = ({name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()} for _ in range(6))
    variables = [keras.Variable(array, name=name) for name, array in weights.items()]
    optimizer = AdamW(0.01, weight_decay=0.3, global_clipnorm=norm)
    optimizer.build(variables)
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(array) for array in gradient.values()])
    assert optimizer.global_clipnorm == norm
    expected, _ = train(weights, gradients, lambda done: 0.01, weight_decay=0.3, clip=norm)
    for variable in variables:
        # Five steps, each of which rounds a weight of up to 4.6 twice, to 2.4e-7.
        np.testing.assert_allclose(value(variable), expected[variable.path], rtol=5e-7, atol=1e-6)


def test_a_gradient_that_is_not_finite_is_not_hidden_by_clipping():
    variables = [keras.Variable(np.ones(shape), name=name) for name, shape in (("kernel", (300, 256)), ("bias", (2,)))]
    optimizer = AdamW(0.1, global_clipnorm=1.0)
    optimizer.build(variables)
    optimizer.apply([keras.ops.ones((300, 256)), keras.ops.convert_to_tensor([1.0, np.inf])])
    assert all(np.isnan(value(variable)).all() for variable in variables)


def test_decay_is_decoupled_from_the_gradient_and_proportional_to_the_rate():
    kernel = keras.Variable(np.full(2, 2.0), name="kernel")
    optimizer = AdamW(0.1, weight_decay=0.5)
    optimizer.build([kernel])
    for _ in range(2):
        optimizer.apply([np.zeros(2, "float32")])
    np.testing.assert_allclose(value(kernel), 2.0 * 0.95**2, rtol=1e-6)


def test_a_decay_of_a_millionth_a_step_is_not_lost_in_float32(rng):
    # 1 − 1e-6 is 1.3 % off in float32; the steps of single weights are rounded, their mean is not.
    kernel = keras.Variable(1 + rng.random(20_000, "float32"), name="kernel")
    before, optimizer = value(kernel).astype("float64"), AdamW(1e-4, weight_decay=0.01)
    optimizer.build([kernel])
    for _ in range(20):
        optimizer.apply([np.zeros(20_000, "float32")])
    assert abs(np.log(value(kernel) / before).mean() / -20e-6 - 1) < 0.005


def test_a_subclass_has_a_step_of_its_own():
    class Doubled(AdamW):
        def update_step(self, gradient, variable, learning_rate):
            self.assign(variable, 2 * variable)

    kernel = keras.Variable(np.ones(2), name="kernel")
    optimizer = Doubled(0.1)
    optimizer.build([kernel])
    optimizer.apply([np.ones(2, "float32")])
    np.testing.assert_array_equal(value(kernel), [2, 2])


def test_without_bias_correction_the_first_step_is_that_of_google():
    kernel = keras.Variable(np.zeros(1), name="kernel")
    optimizer = AdamW(0.1, bias_correction=False, epsilon=0.0)
    optimizer.build([kernel])
    optimizer.apply([np.ones(1, "float32")])
    np.testing.assert_allclose(value(kernel), -0.1 * 0.1 / np.sqrt(0.001), rtol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="compares with torch's own optimizer")
def test_torchs_adamw_takes_the_same_steps(rng):
    import torch

    # In float64: in float32 torch multiplies by 1 − rate · decay, which it rounds.
    start, gradients = rng.normal(size=(4, 5)), rng.normal(size=(20, 4, 5))
    kernel, theirs = keras.Variable(start, dtype="float64", name="kernel"), torch.nn.Parameter(torch.tensor(start))
    optimizer = AdamW(0.01, weight_decay=0.2, epsilon=1e-3)
    optimizer.build([kernel])
    peer = torch.optim.AdamW([theirs], lr=0.01, weight_decay=0.2, eps=1e-3)
    for gradient in gradients:
        optimizer.apply([torch.tensor(gradient)])
        theirs.grad = torch.tensor(gradient)
        peer.step()
    np.testing.assert_allclose(value(kernel), theirs.detach().numpy(), rtol=0, atol=3e-8)


def test_variables_overwritten_with_their_gradient_do_not_count_in_the_norm():
    kernel, scale = keras.Variable(np.zeros(1), name="kernel"), keras.Variable(np.zeros(1), name="scale")
    scale.overwrite_with_gradient = True
    optimizer = AdamW(0.1, global_clipnorm=1.0, epsilon=1.0, bias_correction=False, beta_1=0.0, beta_2=0.0)
    optimizer.build([kernel, scale])
    optimizer.apply([keras.ops.ones(1), keras.ops.full((1,), 100.0)])
    np.testing.assert_allclose(value(scale), 100.0)
    np.testing.assert_allclose(value(kernel), -0.1 * 1.0 / (1.0 + 1.0), rtol=1e-6)


@pytest.mark.parametrize("jit_compile", JIT[keras.backend.backend()])
@pytest.mark.parametrize("accumulated", [1, 3])
def test_ten_steps_of_lamb_are_those_of_numpy(rng, accumulated, jit_compile):
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
