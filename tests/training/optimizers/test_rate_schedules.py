"""Learning rates against their formulas in NumPy: warmup-stable-decay, of runs in minutes, too, and `WarmupLinearDecay`."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import rates, value

from keras_bert_rebuild import AdamW, WarmupLinearDecay
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
