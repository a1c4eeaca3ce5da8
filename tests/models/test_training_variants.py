"""Every way to compute a training step gives the losses of plain NumPy and the gradients of the plain full computation."""

import keras
import numpy as np
import pytest
from helpers.reference import cross_entropy, logits, weights_of
from helpers.small import HEADS, compiled, small_batch, small_model, spread
from keras import ops

from keras_bert_rebuild.training.losses import Perplexity

pytestmark = pytest.mark.backend

# torch has no XLA and takes one step at a time; JAX always has it.
COMPILED = {
    "tensorflow": {"jit_compile": True, "steps_per_execution": 2},
    "jax": {"steps_per_execution": 2},
    "torch": {},
}

# The arguments of `compile_model`, and the batches per optimizer step. Rematerialisation alone is tested in another file.
VARIANTS = {
    "gathered": ({"max_predictions": 4}, 1),
    "in chunks, at all positions": ({"loss_chunk": 7}, 1),
    "everything at once": ({"max_predictions": 4, "remat": True, "loss_chunk": 5, **COMPILED[keras.config.backend()]}, 2),
}


class PlainLoss(keras.losses.Loss):
    """The mean of −log p[label] where the weight is 1; labels and weights are stacked in the last axis."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        labels, counts = ops.cast(y_true[..., 0], "int32"), ops.cast(y_true[..., 1], "float32")
        p = ops.take_along_axis(y_pred, labels[..., None], axis=-1)[..., 0]
        return -ops.sum(ops.log(p) * counts) / ops.sum(counts)


def gradients(model, weights):
    """What a step of plain gradient descent with rate 1 subtracted."""
    return {v.path: old - ops.convert_to_numpy(v) for v, old in zip(model.weights, weights, strict=True)}


@pytest.fixture(scope="module")
def plain():
    """Weights, a batch, and its losses and gradients, from a model without gathering and logits."""
    rng = np.random.default_rng(11)
    keras.utils.set_random_seed(7)
    model = spread(small_model(transformer_num=1), rng)
    weights = model.get_weights()
    x, y = small_batch(rng)
    mlm, nsp = logits(weights_of(model), x[0], x[1], HEADS, 1)
    y[0][:4] = mlm.argmax(-1)[:4, :, None]  # some predictions are right
    labels, pair, chosen = y[0][..., 0], y[1][:, 0], x[2] == 1
    losses = {"MLM_loss": cross_entropy(mlm, labels)[chosen].mean(), "NSP_loss": cross_entropy(nsp, pair).mean()}
    logs = {
        **losses,
        "loss": sum(losses.values()),
        "MLM_accuracy": (mlm.argmax(-1) == labels)[chosen].mean(),
        "MLM_perplexity": np.exp(losses["MLM_loss"]),
        "NSP_accuracy": (nsp.argmax(-1) == pair).mean(),
    }
    trunk = keras.Model(model.inputs[:2], [model.get_layer("MLM-Sim").output, model.get_layer("NSP").output])
    trunk.compile(keras.optimizers.SGD(1.0), loss=[PlainLoss(), PlainLoss()])
    trunk.train_on_batch(x[:2], (np.stack([labels, chosen], axis=-1), np.stack([pair, np.ones(8, int)], axis=-1)))
    return weights, x, y, logs, gradients(model, weights)


def one_step(weights, x, y, arguments, batches=1):
    """The logs and the gradients of one optimizer step."""
    model = small_model(transformer_num=1)
    model.set_weights(weights)
    optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=batches if batches > 1 else None)
    compiled(model, optimizer=optimizer, metrics=[["accuracy", Perplexity()], "accuracy"], **arguments)
    logs = model.fit(x, y, batch_size=len(x[0]) // batches, shuffle=False, verbose=0).history
    return {name: values[0] for name, values in logs.items()}, gradients(model, weights)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_equals_the_plain_one(plain, variant):
    weights, x, y, logs, expected = plain
    got_logs, got = one_step(weights, x, y, *VARIANTS[variant])
    assert got_logs == pytest.approx(logs, rel=1e-5)
    for path, gradient in expected.items():
        np.testing.assert_allclose(got[path], gradient, atol=1e-5, err_msg=path)


@pytest.mark.slow
def test_accumulation_counts_micro_batches_the_same_and_a_large_batch_counts_labels(rng):
    model = spread(small_model(transformer_num=1), rng)
    weights, (x, y) = model.get_weights(), small_batch(rng)
    x[2][:] = 0
    x[2][:4, 1] = 1  # one label per example in the first half, and five in the second
    x[2][4:, 1:6] = 1
    assert (x[0][:, 1:6] > 0).all()
    of_mlm = {"loss_weights": [1.0, 0.0]}
    halves = [
        one_step(weights, *([array[part] for array in arrays] for arrays in (x, y)), of_mlm)[1] for part in (slice(4), slice(4, 8))
    ]
    accumulated, whole = one_step(weights, x, y, of_mlm, batches=2)[1], one_step(weights, x, y, of_mlm)[1]
    for path in whole:
        few, many = (half[path] for half in halves)
        np.testing.assert_allclose(accumulated[path], (few + many) / 2, atol=1e-5, err_msg=path)
        np.testing.assert_allclose(whole[path], (4 * few + 20 * many) / 24, atol=1e-5, err_msg=path)
    assert max(np.abs(accumulated[path] - whole[path]).max() for path in whole) > 0.01


@pytest.mark.slow
def test_a_step_in_bfloat16_equals_the_plain_one_to_its_three_digits(plain):
    weights, x, y, logs, expected = plain
    keras.config.set_dtype_policy("mixed_bfloat16")
    got_logs, got = one_step(weights, x, y, {"max_predictions": 4, "remat": True, "loss_chunk": 5})
    # A loss moves by at most twice what its logits move. These are below 8 and come from a chain of 7 products, each rounded to
    # 2⁻⁹ of itself.
    assert got_logs["MLM_loss"] == pytest.approx(logs["MLM_loss"], abs=2 * 7 * 8 * 2**-9)
    for path, gradient in expected.items():
        # Twice as many products, forward and backward. The gradient of the keys' bias is zero except for rounding: a sum of terms
        # that cancel, as large as those of the queries' bias.
        size = np.linalg.norm(expected[path.replace("key/bias", "query/bias")])
        assert np.linalg.norm(got[path] - gradient) <= 2 * 14 * 2**-9 * size, path
