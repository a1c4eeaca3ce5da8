"""The host does not wait: logs stay on the device if none reads them, and threads put batches there ahead."""

import threading

import keras
import numpy as np
import pytest
from helpers.small import compiled, small_batch, small_model
from helpers.tiny_training import NumberedBatches

from keras_bert_rebuild.kernels import asynchronous, traits
from keras_bert_rebuild.models import checked_data
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


def prepared_batches(workers):
    return NumberedBatches(lambda number: small_batch(np.random.default_rng([number, 5])), 0, 3, workers=workers)


@pytest.fixture
def put(monkeypatch):
    """The names of the threads that put arrays ahead; the arrays stay where they are."""
    threads = []

    def note(array):
        threads.append(threading.current_thread().name)
        return array

    monkeypatch.setattr(checked_data, "put_ahead", lambda: note)
    return threads


def test_the_threads_that_make_batches_put_them_ahead(put):
    model = compiled(small_model(transformer_num=1), max_predictions=4)
    model.fit(prepared_batches(workers=2), verbose=0)
    assert set(put) == {"read-ahead"}
    put.clear()
    model.fit(prepared_batches(workers=0), verbose=0)
    model.evaluate(prepared_batches(workers=2), verbose=0)
    assert put == []  # Keras does it at the step


@pytest.mark.skipif(traits.runs_on_accelerator(), reason="of a processor")
def test_on_a_processor_nothing_is_put_ahead():
    assert asynchronous.put_ahead() is None


@pytest.mark.skipif(keras.config.backend() != "torch", reason="of torch")
def test_on_a_device_without_pinned_memory_arrays_are_left_to_keras(monkeypatch):
    import torch

    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)  # such as Apple's
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    array = np.arange(6, dtype="int32")
    assert asynchronous.put_ahead()(array) is array
    model = small_model()
    x, _ = small_batch(np.random.default_rng(0))
    assert len(asynchronous.dispatched(model, x)) == 2


@pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX")
def test_keras_divides_batches_among_devices_itself(monkeypatch):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    array = np.arange(6, dtype="int32").reshape(2, 3)
    on_device = asynchronous.put_ahead()(array)
    assert keras.ops.is_tensor(on_device)
    assert np.array_equal(on_device, array)
    with keras.distribution.DataParallel(auto_shard_dataset=False).scope():
        assert asynchronous.put_ahead() is None
