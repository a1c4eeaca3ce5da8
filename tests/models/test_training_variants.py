"""Every way to compute a training step gives the losses and gradients of the plain full computation."""

import keras
import numpy as np
import pytest
from small import compiled, small_batch, small_model, spread

from keras_bert_rebuild.training.metrics import Perplexity

# torch has no XLA; JAX always uses it.
XLA = {"jit_compile": True} if keras.backend.backend() == "tensorflow" else {}

# What is asked of `compile_model`, and how many batches an optimizer step takes. More combinations would only compile longer.
VARIANTS = {
    "gathered": ({"max_predictions": 4}, 1),
    "rematerialised": ({"max_predictions": 4, "remat": True}, 1),
    "in chunks, at all positions": ({"loss_chunk": 7}, 1),
    "with XLA, rematerialised, in chunks": ({"max_predictions": 4, "remat": True, "loss_chunk": 5, **XLA}, 1),
    "accumulated, rematerialised, in chunks": ({"max_predictions": 4, "remat": True, "loss_chunk": 5}, 2),
}


def one_step(weights, x, y, arguments, batches=1, **changes):
    """Losses and gradients of an optimizer step: of plain descent with rate 1 the gradient is what is taken away."""
    model = small_model(transformer_num=1, **changes)
    model.set_weights(weights)
    optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=batches if batches > 1 else None)
    metrics = [["accuracy", Perplexity()], "accuracy"]
    compiled(model, optimizer=optimizer, metrics=metrics, **arguments)
    logs = model.fit(x, y, batch_size=len(x[0]) // batches, shuffle=False, verbose=0).history
    gradients = {v.path: old - keras.ops.convert_to_numpy(v) for v, old in zip(model.weights, weights, strict=True)}
    return {name: values[0] for name, values in logs.items()}, gradients


@pytest.fixture(scope="module")
def plain():
    """Weights, a batch, and the plain step."""
    rng = np.random.default_rng(11)
    keras.utils.set_random_seed(7)
    weights = spread(small_model(transformer_num=1), rng).get_weights()
    x, y = small_batch(rng)
    y[0][:4] = x[0][:4, :, None]  # not all wrong
    return weights, x, y, one_step(weights, x, y, {})


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_equals_the_plain_one(plain, variant):
    weights, x, y, (logs, gradients) = plain
    got_logs, got_gradients = one_step(weights, x, y, *VARIANTS[variant])
    assert got_logs == pytest.approx(logs, rel=1e-5)
    for path, gradient in gradients.items():
        np.testing.assert_allclose(got_gradients[path], gradient, atol=1e-5, err_msg=path)


def test_a_step_in_bfloat16_equals_the_plain_one_to_its_three_digits(plain):
    weights, x, y, (logs, gradients) = plain
    keras.config.set_dtype_policy("mixed_bfloat16")
    got_logs, got_gradients = one_step(weights, x, y, {"max_predictions": 4, "remat": True, "loss_chunk": 5})
    # A loss moves by at most twice what its logits move. These are below 8 and come from a chain of 7 products, each rounded to
    # 2⁻⁹ of itself.
    assert got_logs["MLM_loss"] == pytest.approx(logs["MLM_loss"], abs=2 * 7 * 8 * 2**-9)
    for path, gradient in gradients.items():
        # Twice as many products, forward and back; what of the gradient of the keys' biases is not zero is rounding.
        size = max(np.linalg.norm(gradient), 1e-2)
        assert np.linalg.norm(got_gradients[path] - gradient) <= 2 * 14 * 2**-9 * size, path
