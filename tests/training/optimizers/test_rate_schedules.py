"""Learning rates against their formulas in NumPy, of runs in minutes, too, and the steps of `AdamWarmup`."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import rates, value
from helpers.small import compiled, small_model

from keras_bert_rebuild import AdamW, AdamWarmup, WarmupLinearDecay
from keras_bert_rebuild.training.compile_model import WEIGHT_DECAY_PATTERN
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb
from keras_bert_rebuild.training.optimizers.rate_schedules import SHAPES, ProgressSchedule, WarmupStableDecay

pytestmark = pytest.mark.backend

FALLS = {
    "linear": lambda fallen: 1 - fallen,
    "cosine": lambda fallen: (1 + np.cos(np.pi * fallen)) / 2,
    "one_minus_sqrt": lambda fallen: 1 - np.sqrt(fallen),
}


def expected(step, peak, warmup, decay, total, shape):
    if step < warmup:
        return peak * step / warmup
    begins = total - decay
    return peak if step <= begins and step < total else peak * FALLS[shape](min((step - begins) / max(decay, 1), 1.0))


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize(("warmup", "decay", "total"), [(4, 6, 20), (0, 20, 20), (5, 15, 20), (0, 0, 3), (3, 0, 3), (1, 1, 5)])
def test_rates_are_those_of_numpy(shape, warmup, decay, total):
    trace = rates(WarmupStableDecay(0.3, warmup, decay, total, shape), range(total + 3))
    np.testing.assert_allclose(trace[:total], [expected(n, 0.3, warmup, decay, total, shape) for n in range(total)], atol=1e-7)
    np.testing.assert_array_equal(trace[total:], 0.0)


def test_the_rate_before_the_fall_does_not_depend_on_its_end():
    long, short = (WarmupStableDecay(0.3, 7, decay, total) for decay, total in ((200, 1000), (10, 60)))
    assert rates(long, range(51)) == rates(short, range(51))
    assert rates(short, [50]) == [float(np.float32(0.3))]
    assert rates(short, [51]) < rates(long, [51])


def test_progress_goes_straight_to_the_expected_end_and_a_correction_makes_no_jump():
    schedule = ProgressSchedule(1.0, 0.1, 0.2, "one_minus_sqrt", expected_steps=100)
    reference = WarmupStableDecay(1.0, 10, 20, 100)
    # Where the fall begins its slope is infinite: a progress that is rounded by 6e-8 makes 2.4e-4 of it.
    np.testing.assert_allclose(rates(schedule, range(102), rounding=5e-4), rates(reference, range(102)), atol=5e-4)
    before = rates(schedule, [85])
    schedule.correct(85, 0.85, 115)  # half as fast as thought
    np.testing.assert_allclose(rates(schedule, [85]), before, rtol=1e-6)
    after = rates(schedule, range(85, 117, 2), rounding=2e-6)  # of a progress that is rounded
    np.testing.assert_allclose(after, rates(reference, range(85, 101), rounding=2e-6), atol=1e-6)
    assert rates(schedule, [115, 116]) == [0.0, 0.0]


def test_the_line_of_the_progress_is_part_of_the_optimizer():
    kernel, steps = keras.Variable(np.ones(2), name="kernel"), []
    optimizer = AdamW(ProgressSchedule(0.5, 0.0, 1.0, "linear", expected_steps=4), gradient_accumulation_steps=2)
    optimizer.build([kernel])
    (line,) = [variable for variable in optimizer.variables if variable.path.endswith("progress")]
    for batch in range(8):
        if batch == 4:
            line.assign([2.0, 0.5, 6.0])
        steps.append(float(value(optimizer.learning_rate)))
        optimizer.apply([np.ones(2, "float32")])
    np.testing.assert_allclose(steps, [0.5, 0.5, 0.375, 0.375, 0.25, 0.25, 0.1875, 0.1875], atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (WarmupStableDecay, (0.1, 5, 6, 10), "at least their sum"),
        (WarmupStableDecay, (0.1, -1, 6, 10), "must not be negative"),
        (WarmupStableDecay, (-0.1, 1, 6, 10), "peak_rate must not be negative"),
        (WarmupStableDecay, (0.1, 1, 6, 10, "steep"), "shape must be one of 'linear', 'cosine', 'one_minus_sqrt'; got 'steep'"),
        (ProgressSchedule, (0.1, 0.5, 0.6, "linear"), "together at most 1"),
        (ProgressSchedule, (0.1, 0.5, 0.5, "linear", 0), "expected_steps at least 1"),
    ],
)
def test_arguments_out_of_range_are_errors(kind, arguments, said):
    with pytest.raises(ValueError, match=said):
        kind(*arguments)


@pytest.mark.parametrize("schedule", [WarmupStableDecay(0.1, 1, 2, 10, "cosine"), ProgressSchedule(0.1, 0.1, 0.9, "linear", 7)])
def test_a_copy_from_the_config_has_the_same_rates(schedule):
    copy = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert type(copy) is type(schedule)
    assert rates(copy, range(12)) == rates(schedule, range(12))


def test_the_rate_rises_to_the_peak_and_falls_to_the_end_without_a_jump():
    trace = rates(WarmupLinearDecay(1.0, 4, 12, end_rate=0.2), range(14))
    expected = [0, 0.25, 0.5, 0.75, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2]
    np.testing.assert_allclose(trace, expected, atol=1e-6)


def test_it_may_have_no_warmup_or_only_warmup():
    np.testing.assert_allclose(rates(WarmupLinearDecay(1.0, 0, 4), range(6)), [1, 0.75, 0.5, 0.25, 0, 0], atol=1e-6)
    np.testing.assert_allclose(rates(WarmupLinearDecay(1.0, 2, 2), range(4)), [0, 0.5, 0, 0], atol=1e-6)


@pytest.mark.parametrize("optimizer_class", [AdamW, Lamb])
def test_optimizers_use_the_rate_of_the_optimizer_step(optimizer_class):
    kernel = keras.Variable(np.ones(2), name="kernel")
    optimizer = optimizer_class(WarmupLinearDecay(1.0, 2, 4), gradient_accumulation_steps=3)
    optimizer.build([kernel])
    seen = []
    for _ in range(12):
        seen.append(float(value(optimizer.learning_rate)))
        optimizer.apply([np.ones(2, "float32")])
    np.testing.assert_allclose(seen, [0] * 3 + [0.5] * 3 + [1.0] * 3 + [0.5] * 3, atol=1e-6)


def test_a_plain_rate_can_still_be_set_and_a_schedule_cannot_be_overwritten():
    optimizer = AdamW(0.5)
    optimizer.learning_rate = 0.25
    assert float(value(optimizer.learning_rate)) == 0.25
    with pytest.raises(TypeError, match="not settable"):
        AdamW(WarmupLinearDecay(1.0, 2, 4)).learning_rate = 0.25


def test_the_config_round_trip_preserves_everything():
    schedule = WarmupLinearDecay(0.3, 5, 50, end_rate=0.01)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert type(copy) is WarmupLinearDecay
    assert copy.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((1.0, 5, 4), "from 0 to total_steps"), ((1.0, 0, 0), "at least 1"), ((-1.0, 0, 4), "must not be negative")],
)
def test_lengths_and_rates_that_make_no_sense_are_errors(arguments, error):
    with pytest.raises(ValueError, match=error):
        WarmupLinearDecay(*arguments)


def test_the_rate_of_a_number_is_computed_by_numpy_so_that_a_log_compiles_nothing():
    for schedule in (WarmupLinearDecay(1.0, 2, 6), WarmupStableDecay(1.0, 2, 3, 6), ProgressSchedule(1.0, 0.2, 0.5, "cosine")):
        assert isinstance(schedule(3), (np.ndarray, np.floating))
        assert keras.ops.is_tensor(schedule(keras.ops.convert_to_tensor(3)))


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


def test_the_config_of_adam_warmup_preserves_everything():
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


def test_the_decay_pattern_is_keras_berts_list():
    assert set(WEIGHT_DECAY_PATTERN) == {"embeddings", "kernel", "W1", "W2", "Wk", "Wq", "Wv", "Wo"}
