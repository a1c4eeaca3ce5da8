"""`AdamWarmup` against its formula in NumPy."""

import keras
import numpy as np
import pytest
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild import AdamWarmup
from keras_bert_rebuild.training.compile_model import WEIGHT_DECAY_PATTERN

pytestmark = pytest.mark.backend


def reference(p, gradients, decay_steps, warmup_steps, min_lr, lr, wd, amsgrad=False, b1=0.9, b2=0.999, eps=1e-7):
    m = v = top = 0.0
    for t, g in enumerate(gradients, 1):
        falling = min_lr + (lr - min_lr) * (1 - min(t, decay_steps) / decay_steps)
        rate = lr * t / warmup_steps if t <= warmup_steps else falling
        a = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        top = np.maximum(top, v) if amsgrad else v
        p = p - a * (m / (np.sqrt(top) + eps) + wd * p)
    return p


def run(optimizer, start, gradients, name="kernel"):
    variable = keras.Variable(start, name=name)
    optimizer.build([variable])
    for gradient in gradients:
        optimizer.apply_gradients([(keras.ops.convert_to_tensor(gradient), variable)])
    return keras.ops.convert_to_numpy(variable)


@pytest.mark.parametrize("warmup_steps", [0, 3, 20])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_steps_follow_the_formula(rng, warmup_steps, weight_decay, amsgrad):
    start = rng.normal(size=5).astype("float32")
    gradients = [rng.normal(size=5).astype("float32") * scale for scale in (3, 1, 1, 1, 0.1, 0.1, 1, 1, 1, 1, 1, 1)]
    optimizer = AdamWarmup(10, warmup_steps, min_lr=0.01, learning_rate=0.1, weight_decay=weight_decay, amsgrad=amsgrad)
    expected = reference(start.astype("float64"), gradients, 10, warmup_steps, 0.01, 0.1, weight_decay, amsgrad)
    # Keras's Adam computes 1 − 0.999ᵗ in float32, with a relative error of 6e-5 at t = 1: 6e-6 for steps of 0.1.
    np.testing.assert_allclose(run(optimizer, start, gradients), expected, atol=6e-6)


def test_the_rate_follows_keras_bert():
    optimizer = AdamWarmup(10, 4, min_lr=0.1, learning_rate=1.0)
    trace = [float(keras.ops.convert_to_numpy(optimizer.rate_at(step, 1.0))) for step in range(1, 13)]
    np.testing.assert_allclose(trace, [0.25, 0.5, 0.75, 1.0, 0.55, 0.46, 0.37, 0.28, 0.19, 0.1, 0.1, 0.1], atol=1e-6)


def test_only_variables_whose_path_matches_decay(rng):
    gradients = [np.zeros(3, "float32")] * 3
    for pattern, name, decays in (
        (["kernel"], "kernel", True),
        (["kernel"], "bias", False),
        ([], "kernel", False),
        (None, "bias", True),
    ):
        optimizer = AdamWarmup(10, 1, learning_rate=0.1, weight_decay=0.1, weight_decay_pattern=pattern)
        assert (run(optimizer, np.ones(3, "float32"), gradients, name) < 1).all() == decays


def test_tables_and_kernels_of_bert_have_decay():
    model = compiled(small_model(), optimizer=None)
    decayed = {v.path for v in model.trainable_variables if model.optimizer.decays(v)}
    left = {v.path.split("/")[-1] for v in model.trainable_variables if v.path not in decayed}
    assert {path.split("/")[-1] for path in decayed} == {"embeddings", "kernel"}
    assert left == {"bias", "gamma", "beta"}
    everything = compiled(small_model(), optimizer=None, weight_decay_pattern=None)
    assert all(everything.optimizer.decays(v) for v in everything.trainable_variables)


def test_the_config_round_trip_preserves_everything():
    optimizer = AdamWarmup(
        10, 4, 0.1, 0.5, 0.8, 0.9, 1e-6, 0.3, ["kernel"], True, decay=0.01, clipnorm=1.0, gradient_accumulation_steps=2
    )
    copy = AdamWarmup.from_config(optimizer.get_config())
    assert copy.get_config() == optimizer.get_config()
    assert copy.weight_decay_pattern == ["kernel"]
    assert copy.decay_rate == 0.3


def test_the_old_name_of_the_rate_still_works():
    assert float(AdamWarmup(10, 4, lr=0.25).learning_rate) == 0.25
    assert AdamWarmup(10, 4, epsilon=None).epsilon == AdamWarmup(10, 4, epsilon=0).epsilon == 1e-7


def test_an_unknown_argument_is_an_error():
    with pytest.raises((TypeError, ValueError), match="speed"):
        AdamWarmup(10, 4, speed=3)


@pytest.mark.parametrize(
    "arguments", [{"decay_steps": 0, "warmup_steps": 0}, {"decay_steps": 5, "warmup_steps": 1, "weight_decay_pattern": "W1"}]
)
def test_settings_that_make_no_sense_are_errors(arguments):
    with pytest.raises(ValueError, match=r"decay_steps must be above 0|list of strings"):
        AdamWarmup(**arguments)


def test_accumulated_gradients_count_as_one_step(rng):
    gradients = [rng.normal(size=3).astype("float32") for _ in range(8)]
    start = np.ones(3, "float32")
    averaged = [(a + b) / 2 for a, b in zip(gradients[::2], gradients[1::2], strict=True)]
    plain = run(AdamWarmup(10, 2, learning_rate=0.1), start, averaged)
    accumulated = run(AdamWarmup(10, 2, learning_rate=0.1, gradient_accumulation_steps=2), start, gradients)
    np.testing.assert_allclose(accumulated, plain, atol=1e-6)


@pytest.mark.slow(torch=True)
def test_a_compiled_model_trains_with_it(rng):
    model = compiled(small_model(), optimizer=None, learning_rate=0.01, warmup_steps=5, decay_steps=200, max_predictions=4)
    x, y = small_batch(rng)
    history = model.fit(x, y, batch_size=8, epochs=40, verbose=0).history["loss"]
    assert history[-1] < history[0] / 2


def test_the_decay_pattern_is_keras_berts_list():
    assert set(WEIGHT_DECAY_PATTERN) == {"embeddings", "kernel", "W1", "W2", "Wk", "Wq", "Wv", "Wo"}
