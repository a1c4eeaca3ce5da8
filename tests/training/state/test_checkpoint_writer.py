"""Checkpoints that a background thread writes during training."""

import errno
import os
import threading

import keras
import numpy as np
import pytest
from helpers.tiny_training import At, fit, tiny_model

from keras_bert_rebuild.training.state import train_state
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import CheckpointWriter, SaveCheckpoints, SpoiledStateError
from keras_bert_rebuild.training.state.train_state import CopiedState

pytestmark = pytest.mark.backend


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
