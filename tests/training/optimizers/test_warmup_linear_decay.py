"""`WarmupLinearDecay` computed by hand, and its use by optimizers."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import rates, value

from keras_bert_rebuild import AdamW, WarmupLinearDecay
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb
from keras_bert_rebuild.training.optimizers.rate_schedules import ProgressSchedule, WarmupStableDecay


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
