"""Functions that are one kernel in training have the values and gradients of the plain functions."""

import math

import keras
import numpy as np
import pytest
from helpers.kernel_checks import TOLERANCES, rounded, value_and_gradients
from keras import ops

from keras_bert_rebuild.layers import Dense, Dropout, FeedForward, LayerNormalization, MultiHeadSelfAttention, PositionEmbedding
from keras_bert_rebuild.layers.activations import ACTIVATIONS

pytestmark = pytest.mark.backend


def in_training(function):
    """The activation of a feed-forward network in training."""
    layer = FeedForward(16, activation=function)
    return lambda x: layer.activate(x, True)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["gelu", "gelu_erf"])
def test_gelu_in_half_precision_is_rounded_only_once(name, training):
    """With a rounding after each operation the error at -3 would be 0.6 of the value: 1 + tanh cancels."""
    x = rounded(np.linspace(-3, 3, 601), "bfloat16")
    inner = [math.erf(v / 2**0.5) if name == "gelu_erf" else math.tanh((2 / math.pi) ** 0.5 * (v + 0.044715 * v**3)) for v in x]
    exact = x / 2 * (1 + np.array(inner))
    function = in_training(ACTIVATIONS[name]) if training else ACTIVATIONS[name]
    found = ops.convert_to_numpy(ops.cast(function(ops.cast(x.astype("float32"), "bfloat16")), "float32"))
    np.testing.assert_allclose(found, exact, rtol=1.02 * 2**-8)


@pytest.mark.parametrize("use_bias", [True, False])
def test_a_training_step_of_a_feed_forward_block_uses_the_gradients_of_the_formula(use_bias, rng):
    layer, x = FeedForward(16, activation=ACTIVATIONS["gelu"], use_bias=use_bias), rng.standard_normal((2, 5, 8)).astype("float32")
    model = keras.Sequential([keras.Input((5, 8)), layer])
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y, outputs: ops.sum(outputs**2) / 2)
    before = [weight.astype("float64") for weight in layer.get_weights()]
    outputs = model.predict(x, verbose=0).reshape(10, 8)
    model.train_on_batch(x, np.zeros((2, 5, 8)))
    changes = [a - b for a, b in zip(before, layer.get_weights(), strict=True)]
    kernel, inner = before[0], np.float64(x).reshape(10, 8) @ before[0] + (before[1] if use_bias else 0)
    tanh = np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))
    slope = (1 + tanh) / 2 + inner / 2 * (1 - tanh**2) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * inner**2)
    of_inner = outputs @ before[2 if use_bias else 1].T * slope
    expected = [x.reshape(10, 8).T @ of_inner, (inner / 2 * (1 + tanh)).T @ outputs]
    expected = [expected[0], of_inner.sum(0), expected[1], outputs.sum(0)] if use_bias else expected
    assert kernel.shape == (8, 16)
    for change, gradient in zip(changes, expected, strict=True):
        np.testing.assert_allclose(change, gradient, rtol=1e-4, atol=1e-5)


# With a bias, which every token of a batch adds its gradient to.
BIASED = {
    "feed-forward": lambda: FeedForward(16, activation=ACTIVATIONS["gelu"]),
    "feed-forward, gated": lambda: FeedForward(16, activation=ACTIVATIONS["gelu"], gated=True),
    "feed-forward, another activation": lambda: FeedForward(16, activation="relu"),
    "attention": lambda: MultiHeadSelfAttention(2),
    "dense": lambda: Dense(8, activation=None),
    "positions": lambda: PositionEmbedding(64, 8, mode="add"),
}


@pytest.mark.parametrize("kind", BIASED)
def test_in_half_precision_the_gradient_of_a_bias_is_that_of_float32(kind, rng):
    """4,096 tokens whose gradients have a mean: a sum in bfloat16 stops growing at 256 of them."""
    # A small rate: on a busy processor TensorFlow may update a kernel before the backward pass has read it.
    rate = 2.0**-16
    x, start, changes = rng.standard_normal((64, 64, 8)), None, {}
    for policy in ("float32", "mixed_bfloat16"):
        keras.config.set_dtype_policy(policy)
        layer, inputs = BIASED[kind](), keras.Input((64, 8))
        sums = ops.sum(ops.cast(layer(inputs), "float32"), axis=(1, 2))[:, None]
        model = keras.Model(inputs, sums)
        start = [rng.standard_normal(weight.shape) / 3 for weight in layer.weights] if start is None else start
        layer.set_weights(start)
        model.compile(keras.optimizers.SGD(rate), lambda labels, outputs: outputs)
        model.train_on_batch(x, np.zeros((64, 1)))
        changes[policy] = {
            weight.path.split("/", 1)[1]: (one - weight.numpy()) / rate for weight, one in zip(layer.weights, start, strict=True)
        }
    exact, found = changes.values()
    sums = [name for name in exact if "kernel" not in name]
    assert sums
    for name in sums:
        # A bias of keys changes no probability: its gradient is 0 up to rounding.
        np.testing.assert_allclose(found[name], exact[name], rtol=0.02, atol=0.02 * max(1, np.abs(exact[name]).max()))


def test_the_variables_of_a_users_activation_are_trained(rng):
    slope = keras.layers.PReLU(shared_axes=[1])
    model = keras.Sequential([FeedForward(16, activation=slope)])
    model.compile("sgd", "mse")
    model.fit(rng.standard_normal((4, 5, 8)), np.ones((4, 5, 8)), verbose=0)
    assert slope.get_weights()[0].any()  # they start at 0


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"center": False}, {"axis": (1, 2)}], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_norm_gives_the_same_output_in_training_and_inference(options, dtype, rng):
    layer = LayerNormalization(dtype=dtype, **options)
    x = ops.convert_to_tensor(4 * rng.standard_normal((2, 5, 8)).astype("float32") + 1)
    training, inference = layer(x, training=True), layer(x, training=False)
    assert training.dtype == inference.dtype
    both = (ops.convert_to_numpy(ops.cast(y, "float32")) for y in (training, inference))
    np.testing.assert_allclose(*both, rtol=2e-5 if dtype == "float32" else 2e-2, atol=1e-5)


def test_a_norm_has_the_gradients_of_the_formula(rng):
    layer = LayerNormalization()
    layer.build((None, 5, 8))
    x, upstream = 4 * rng.standard_normal((2, 5, 8)) + 1, rng.standard_normal((2, 5, 8))
    _, gradient = value_and_gradients(lambda x: layer(x, training=True), upstream, x)
    deviation = x.std(-1, keepdims=True)
    normal = (x - x.mean(-1, keepdims=True)) / deviation
    expected = (upstream - upstream.mean(-1, keepdims=True) - normal * (upstream * normal).mean(-1, keepdims=True)) / deviation
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_dropout_scales_values_and_gradients_by_the_keep_rate(dtype, rng):
    layer = Dropout(0.25, dtype=dtype)
    x, upstream = (rounded(2 + rng.random((40, 30, 20)), dtype) for _ in range(2))
    output, gradient = value_and_gradients(lambda x: layer(x, training=True), upstream, x, dtype=dtype)  # each with its own draws
    assert abs(((output == 0) != (gradient == 0)).mean() - 0.375) < 0.02
    for found, kept in ((output, x), (gradient, upstream)):
        assert abs((found == 0).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / x.size)
        np.testing.assert_allclose(found[found != 0], kept[found != 0] / 0.75, rtol=TOLERANCES[dtype])
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(x, training=False)), x)


def test_dropout_drops_the_same_values_in_forward_and_backward_pass():
    scale = keras.layers.EinsumDense("bi,i->bi", output_shape=4000, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((4000,)), scale, Dropout(0.5)])
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y, outputs: ops.sum(outputs**2) / 2)
    model.train_on_batch(np.ones((1, 4000)), np.ones((1, 4000)))
    change = 1 - scale.get_weights()[0]
    # A retained output is 2, and its gradient twice that; with two draws only a quarter would be retained in both.
    assert set(np.unique(change)) == {0.0, 4.0}
    assert abs((change == 4).mean() - 0.5) < 0.05


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_probabilities_are_dropped_at_the_rate(dtype):
    """Draws of bfloat16 itself, in steps of 1/128, would drop 0.1016 for 0.1."""
    layer = MultiHeadSelfAttention(1, attention_dropout=0.1, dtype=dtype)
    layer.build((None, 4, 1))
    # Every value is 1 and every probability 1/4, so an output times 4 · 0.9 is the number of keys that stay.
    layer.set_weights(
        [np.full(weight.shape, weight.name == "bias" or "output" in weight.path, "float32") for weight in layer.weights]
    )
    layer.output_dense.bias.assign([0.0])
    outputs = layer(ops.ones((100_000, 4, 1), dtype=layer.compute_dtype), training=True)
    kept = np.rint(ops.convert_to_numpy(ops.cast(outputs, "float32")) * 3.6) / 4
    draws = 4 * kept.size
    assert abs(kept.mean() - 0.9) < 5 * np.sqrt(0.9 * 0.1 / draws)
