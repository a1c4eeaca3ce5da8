"""Which trainings leave the logs of their steps on the device."""

import keras
import numpy as np
import pytest
from helpers.numbered_batches import NumberedBatches
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild.models.device_logs import DeviceLogs, as_numbers, stays_on_device
from keras_bert_rebuild.training.state.callbacks import StopOnNonFiniteLoss, StopOnSignal
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds

pytestmark = pytest.mark.backend


class Silent(keras.callbacks.Callback):
    """Does nothing after a batch."""


class Reading(keras.callbacks.Callback):
    """Reads the loss of every batch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


class Looking(Reading):
    """Takes the logs as they are."""

    reads_logs_itself = True


@pytest.fixture(scope="module")
def model():
    return compiled(small_model(transformer_num=1), max_predictions=4)


def batches(steps):
    return NumberedBatches(lambda number: small_batch(np.random.default_rng([number, 5])), 0, steps)


def test_our_callbacks_leave_the_logs_on_the_device(tmp_path):
    ours = [StopOnNonFiniteLoss(tmp_path), StopOnSignal(), SaveCheckpoints(tmp_path), TorchStepSeeds()]
    assert stays_on_device(ours)
    assert stays_on_device([*ours, Silent()])
    assert not stays_on_device([*ours, Reading()])
    assert not stays_on_device([Silent()])  # nothing to gain: Keras knows that none reads
    assert not stays_on_device(None)


@pytest.mark.slow
def test_a_callback_gets_tensors_if_no_other_needs_numbers(model):
    looking, reading = Looking(), Reading()
    history = model.fit(batches(3), verbose=0, callbacks=[looking])
    assert all(keras.ops.is_tensor(loss) for loss in looking.losses)
    assert float(looking.losses[-1]) == pytest.approx(history.history["loss"][0])
    model.fit(batches(3), verbose=0, callbacks=[looking, reading])
    assert all(isinstance(loss, float) for loss in (*looking.losses[3:], *reading.losses))
    assert (len(looking.losses), len(reading.losses)) == (6, 3)


def test_the_bar_and_the_history_show_what_they_show_without(model, capsys):
    looking = Looking()
    history = model.fit(batches(4), epochs=2, verbose=1, callbacks=[looking], validation_data=batches(2))
    assert history.epoch == [0, 1]
    assert {"loss", "val_loss"} <= history.history.keys()
    shown = capsys.readouterr().out
    assert "Epoch 2/2" in shown
    assert "4/4" in shown
    assert all(keras.ops.is_tensor(loss) for loss in looking.losses)


def test_numbers_of_nested_logs_are_read_by_name():
    assert as_numbers({"loss": np.float32(2), "MLM": {"accuracy": np.float32(0.5)}}) == {"loss": 2.0, "accuracy": 0.5}
    assert as_numbers(None) == {}


def test_a_list_of_the_user_is_used_as_it_is(model):
    looking = Looking()
    listed = keras.callbacks.CallbackList([looking], add_history=True, model=model, epochs=1, steps=2)
    model.fit(batches(2), verbose=0, callbacks=listed)
    assert all(isinstance(loss, float) for loss in looking.losses)
    assert not isinstance(listed, DeviceLogs)
