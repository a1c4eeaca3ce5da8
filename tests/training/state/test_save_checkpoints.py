"""When checkpoints are written, and when they are not, in place and by a thread in the background."""

import errno
import os
import threading
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from helpers.tiny_training import At, batches, fit, stop, tiny_model

from keras_bert_rebuild.training.state import train_state
from keras_bert_rebuild.training.state.callbacks import StopOnNonFiniteLoss
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import CheckpointWriter, SaveCheckpoints, SpoiledStateError
from keras_bert_rebuild.training.state.train_state import CopiedState

pytestmark = pytest.mark.backend


def test_checkpoints_are_written_at_intervals_of_steps_and_at_the_end(tmp_path):
    save = SaveCheckpoints(
        CheckpointFolder(tmp_path, keep=9), every_steps=3, position=lambda step: {"batch": step}, initial_step=100
    )
    model = tiny_model()
    fit(model, 4, [save], epochs=2)
    assert save.folder.steps() == [102, 105, 108]
    newest = save.folder.newest()
    assert newest.facts == {"batch": 108}
    assert np.array_equal(newest.arrays().read(f"weights/{model.weights[0].path}"), model.get_weights()[0])
    fit(model, 3, [save])
    assert save.folder.steps() == [102, 105, 108, 111]


def test_checkpoints_are_written_at_intervals_of_seconds(tmp_path, monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("keras_bert_rebuild.training.state.save_checkpoints.time", SimpleNamespace(monotonic=lambda: next(clock)))
    save = SaveCheckpoints(CheckpointFolder(tmp_path, keep=99), every_seconds=25)
    fit(tiny_model(), 8, [save])
    assert save.folder.steps() == [3, 6, 8]


@pytest.mark.parametrize("before", [True, False])
def test_a_stop_is_followed_by_a_checkpoint_in_any_order(tmp_path, before):
    save = SaveCheckpoints(tmp_path)
    stopping = At(3, stop)
    fit(tiny_model(), 6, [save, stopping] if before else [stopping, save], epochs=2)
    assert save.folder.steps() == [3]


@pytest.mark.parametrize("spoiled", [1, 3, 6])
@pytest.mark.parametrize("order", [1, -1])
def test_weights_after_a_loss_that_is_not_finite_are_never_written(tmp_path, spoiled, order):
    save = SaveCheckpoints(CheckpointFolder(tmp_path, keep=9), every_steps=1)
    watch = StopOnNonFiniteLoss(tmp_path, every_steps=1)
    with pytest.warns(UserWarning, match=rf"the loss became NaN at step {spoiled}: training stops"):
        fit(tiny_model(), 6, [save, watch][::order], spoiled=[spoiled])
    assert save.folder.steps() == list(range(1, spoiled))
    assert watch.step == spoiled


def test_weights_that_a_gradient_spoiled_are_never_written(tmp_path):
    save = SaveCheckpoints(tmp_path, every_steps=2)

    def spoil(callback):
        layer = callback.model.layers[-1]
        layer.bias.assign(np.array([np.nan], "float32"))

    with pytest.warns(UserWarning, match=r"after step 4 weights/.*bias contains NaN or infinity; no checkpoint"):
        fit(tiny_model(), 8, [At(4, spoil), save])
    assert save.folder.steps() == [2]
    assert save.step == 4
    assert "after step 4" in save.problem


def test_the_best_by_validation_is_retained_and_a_saved_step_gets_its_score(tmp_path):
    scores = iter([3.0, 1.0, 2.0, 2.5])

    def score(step, logs):
        return next(scores) if "val_loss" in logs else None

    save = SaveCheckpoints(CheckpointFolder(tmp_path, keep=1), every_steps=2, score=score)
    fit(tiny_model(), 4, [save], epochs=4, validation_data=batches(1))
    assert save.folder.steps() == [8, 16]
    assert save.folder.best().score == 1.0
    assert save.folder.newest().score == 2.5


def test_with_averages_the_last_checkpoint_holds_the_weights_and_not_the_averages(tmp_path):
    model = tiny_model(keras.optimizers.Adam(0.1, use_ema=True))
    save = SaveCheckpoints(tmp_path)
    fit(model, 6, [save], epochs=2)
    source = save.folder.newest().arrays()
    assert save.folder.steps()[-1] == 12
    path = model.weights[0].path
    average = source.read(f"optimizer/{path}/average")
    assert np.array_equal(model.get_weights()[0], average)  # Keras copied them at the end of `fit`
    assert not np.array_equal(source.read(f"weights/{path}"), average)


def test_without_a_step_there_is_no_checkpoint(tmp_path):
    save = SaveCheckpoints(tmp_path / "run", initial_step=5)
    fit(tiny_model(), 2, [save], initial_epoch=1, epochs=1)
    assert not (tmp_path / "run").exists()


def test_wrong_arguments_are_reported(tmp_path):
    with pytest.raises(ValueError, match="every_steps must be at least 1 batch, or None; got 0"):
        SaveCheckpoints(tmp_path, every_steps=0)
    with pytest.raises(ValueError, match="every_seconds must be above 0, or None; got 0"):
        SaveCheckpoints(tmp_path, every_seconds=0)


def files(folder):
    """The arrays of every checkpoint of a folder."""
    return {step: (folder / f"step-{step:08d}" / "state.safetensors").read_bytes() for step in CheckpointFolder(folder).steps()}


@pytest.fixture
def gate(monkeypatch):
    """Writing waits for this event."""
    event, read = threading.Event(), train_state.CopiedState.read

    def waiting_read(self, name):
        assert event.wait(60)
        return read(self, name)

    monkeypatch.setattr(train_state.CopiedState, "read", waiting_read)
    yield event
    event.set()


def test_a_checkpoint_written_in_the_background_equals_one_written_in_place(tmp_path):
    for background in (False, True):
        keras.utils.set_random_seed(3)
        save = SaveCheckpoints(CheckpointFolder(tmp_path / str(background), keep=9), every_steps=2, background=background)
        fit(tiny_model(keras.optimizers.Adam(0.1)), 7, [save])
    assert list(files(tmp_path / "True")) == [2, 4, 6, 7]
    assert files(tmp_path / "True") == files(tmp_path / "False")


def test_the_training_goes_on_while_a_checkpoint_of_the_step_before_is_written(tmp_path, gate):
    seen = []

    def during(callback):
        seen.append(save.folder.steps())
        gate.set()

    save = SaveCheckpoints(tmp_path / "beside", every_steps=2, background=True)
    keras.utils.set_random_seed(3)
    fit(tiny_model(keras.optimizers.Adam(0.1)), 5, [save, At(3, during)])
    keras.utils.set_random_seed(3)
    fit(tiny_model(keras.optimizers.Adam(0.1)), 5, [SaveCheckpoints(tmp_path / "in place", every_steps=2)])
    assert seen == [[]]  # at step 3 that of step 2 was not written
    assert files(tmp_path / "beside") == files(tmp_path / "in place")


def test_a_save_waits_for_the_one_before(tmp_path, gate):
    writer, model, order = CheckpointWriter(CheckpointFolder(tmp_path), background=True), tiny_model(), []
    writer.save(1, model)
    threading.Timer(0.05, lambda: (order.append("opened"), gate.set())).start()
    writer.save(2, model)
    order.append(writer.folder.steps()[0])
    writer.wait()
    assert order == ["opened", 1]
    assert writer.folder.steps() == [1, 2]


def test_an_error_of_the_writer_ends_the_training_with_its_sentence(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    save = SaveCheckpoints(tmp_path, every_steps=2, background=True)

    def fill(callback):
        save.writer.join()
        monkeypatch.setattr(os, "fsync", full)

    ended = At(5, lambda callback: save.writer.join())
    sentence = (
        r"the checkpoint of step 4 could not be written to .*, whose other checkpoints are unchanged: No space left on device"
    )
    with pytest.raises(OSError, match=sentence):
        fit(tiny_model(), 9, [At(3, fill), ended, save])
    monkeypatch.undo()
    assert save.step == 5  # the first batch after the thread had ended
    assert save.folder.newest().step == 2


def test_weights_that_are_not_finite_are_found_by_the_thread_and_not_written(tmp_path):
    save = SaveCheckpoints(tmp_path, every_steps=2, background=True)
    spoil = At(4, lambda callback: callback.model.layers[-1].bias.assign(np.array([np.nan], "float32")))
    ended = At(5, lambda callback: save.writer.join())
    with pytest.warns(UserWarning, match=r"after step 4 weights/.*bias contains NaN or infinity; no checkpoint"):
        fit(tiny_model(), 8, [spoil, ended, save])
    assert (save.folder.steps(), save.step) == ([2], 5)
    writer = CheckpointWriter(CheckpointFolder(tmp_path / "other"), background=True)
    model = tiny_model()
    model.layers[-1].bias.assign(np.array([np.inf], "float32"))
    writer.save(1, model)
    with pytest.raises(SpoiledStateError, match=r"weights/.*bias contains NaN or infinity") as error:
        writer.wait()
    assert error.value.step == 1
    writer.wait()  # it was said once


def test_a_copied_state_is_that_of_its_moment_and_is_released_as_it_is_read():
    keras.utils.set_random_seed(3)
    model = tiny_model(keras.optimizers.Adam(0.1))
    fit(model, 1, [])
    expected = train_state.read_state(model)
    state = CopiedState(model)
    fit(model, 3, [])
    found = {name: state.read(name) for name in state.names}
    assert all(np.array_equal(found[name], array) for name, array in expected.items())
    assert not np.array_equal(found["optimizer/iteration"], train_state.read_state(model)["optimizer/iteration"])
    with pytest.raises(KeyError):
        state.read(state.names[0])
