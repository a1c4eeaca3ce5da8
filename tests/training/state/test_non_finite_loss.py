"""A loss that is not finite: the step is named and the batch saved."""

import errno
import os

import keras
import numpy as np
import pytest
from helpers.tiny_training import batches, fit, tiny_model

from keras_bert_rebuild.training.state.callbacks import StopOnNonFiniteLoss

pytestmark = pytest.mark.backend


def batch_of(step):
    """A batch nested like a pretraining batch; its values encode the step."""
    return (np.full(3, step), np.zeros((3, 2), "float32"), None), {"label": np.full((3, 1), -step)}


@pytest.mark.parametrize(("every_steps", "stopped"), [(1, 1204), (5, 1205), (32, 1206)])
def test_the_batch_is_saved_and_the_message_names_step_and_file(tmp_path, every_steps, stopped):
    watch = StopOnNonFiniteLoss(tmp_path / "run", batch_of, initial_step=1200, every_steps=every_steps)
    with pytest.warns(UserWarning, match=r"the loss became NaN at step 1204: training stops; .* is in .*step-00001204\.npz\."):
        fit(tiny_model(), 6, [watch], spoiled=[4, 5], epochs=3)
    assert watch.step == stopped
    assert os.listdir(tmp_path / "run") == ["non-finite-step-00001204.npz"]
    with np.load(tmp_path / "run" / "non-finite-step-00001204.npz", allow_pickle=False) as file:
        assert sorted(file) == ["step-00001204/0/0", "step-00001204/0/1", "step-00001204/1/label"]
        assert np.array_equal(file["step-00001204/0/0"], [1204] * 3)
        assert np.array_equal(file["step-00001204/1/label"], [[-1204]] * 3)


def test_an_infinite_loss_is_called_so(tmp_path):
    model = tiny_model(loss=lambda y, prediction: keras.ops.mean(prediction) * 0 + keras.ops.max(y))
    x, y = batches(3)
    y[4:] = np.inf
    watch = StopOnNonFiniteLoss(tmp_path)
    with pytest.warns(UserWarning, match="the loss became infinite at step 2: training stops"):
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[watch])


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="Keras 3.15 has no steps_per_execution on torch")
@pytest.mark.parametrize(("spoiled", "first", "last"), [(5, 4, 6), (7, 7, 8)])
def test_all_batches_of_an_execution_are_saved(tmp_path, spoiled, first, last):
    watch = StopOnNonFiniteLoss(tmp_path, batch_of)
    with pytest.warns(UserWarning, match=rf"the loss became NaN at one of the steps {first} to {last}: training stops"):
        fit(tiny_model(steps_per_execution=3), 8, [watch], spoiled=[spoiled])
    name = f"non-finite-steps-{first:08d}-to-{last:08d}.npz"
    assert os.listdir(tmp_path) == [name]
    with np.load(tmp_path / name) as file:
        assert {key.split("/")[0] for key in file} == {f"step-{step:08d}" for step in range(first, last + 1)}


def test_a_full_disk_does_not_hide_the_reason(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    watch = StopOnNonFiniteLoss(tmp_path, batch_of)
    with pytest.warns(UserWarning, match=r"at step 2: training stops; .* could not be written to .*: No space left on device"):
        fit(tiny_model(), 6, [watch], spoiled=[2])
    assert os.listdir(tmp_path) == []


class OnDevice:
    """A loss on the device, which counts how often it was read."""

    read = 0

    def __init__(self, value):
        self.value = value

    def __float__(self):
        OnDevice.read += 1
        return self.value


def test_between_looks_no_loss_is_read_and_the_first_bad_step_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(OnDevice, "read", 0)
    watch = StopOnNonFiniteLoss(tmp_path, initial_step=2, every_steps=4)
    watch.set_model(tiny_model())
    read = []
    for batch, loss in enumerate([1.0, 2.0, 3.0, np.nan, np.nan]):
        watch.on_train_batch_begin(batch)
        watch.on_train_batch_end(batch, {"loss": OnDevice(loss)})
        read.append(OnDevice.read)
    assert read == [0, 2, 2, 2, 2]  # after step 4, of 3 and 4
    with pytest.warns(UserWarning, match="NaN at step 6: training stops"):
        watch.on_epoch_end(0)
    assert OnDevice.read == 4  # those of 5 and 6; the loss of 7 says nothing more


def test_validation_does_not_begin_after_a_loss_that_is_not_finite(tmp_path):
    validated = []

    class Validation(keras.callbacks.Callback):
        def on_test_batch_begin(self, batch, logs=None):
            validated.append(batch)

    watch = StopOnNonFiniteLoss(tmp_path)
    with pytest.warns(UserWarning, match="NaN at step 2"):
        fit(tiny_model(), 3, [watch, Validation()], spoiled=[2], epochs=2, validation_data=batches(3), validation_batch_size=4)
    assert len(validated) <= 1


def test_the_steps_between_looks_are_at_least_one(tmp_path):
    with pytest.raises(ValueError, match="every_steps must be at least 1 batch; got 0"):
        StopOnNonFiniteLoss(tmp_path, every_steps=0)


def test_finite_losses_do_nothing(tmp_path):
    watch = StopOnNonFiniteLoss(tmp_path, batch_of)
    fit(tiny_model(), 4, [watch], epochs=2)
    assert (watch.step, watch.problem, os.listdir(tmp_path)) == (8, None, [])
