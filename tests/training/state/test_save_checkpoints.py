"""When checkpoints are written, and when they are not."""

import errno
import os
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from helpers.tiny_training import At, batches, fit, stop, tiny_model

from keras_bert_rebuild.training.state.callbacks import StopOnNonFiniteLoss
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints
from keras_bert_rebuild.training.state.train_state import write_state

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


def test_the_weights_written_are_those_of_the_step(tmp_path):
    def train(steps):
        keras.utils.set_random_seed(3)
        model = tiny_model(keras.optimizers.Adam(0.1))
        fit(model, steps, [SaveCheckpoints(tmp_path / str(steps), every_steps=2)])
        return CheckpointFolder(tmp_path / str(steps))

    short, long = train(2).newest(), train(6)
    assert long.steps() == [2, 4, 6]
    arrays = CheckpointFolder(tmp_path / "6").path / "step-00000002" / "state.safetensors"
    assert arrays.read_bytes() == (short.path / "state.safetensors").read_bytes()


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


def test_a_run_resumes_from_a_checkpoint_in_one_process(tmp_path):
    model = tiny_model(keras.optimizers.Adam(0.1))
    fit(model, 3, [SaveCheckpoints(tmp_path)])
    expected = model.get_weights()
    fit(model, 3, [])
    write_state(model, CheckpointFolder(tmp_path).newest().arrays())
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), expected, strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_a_full_disk_ends_the_training_and_leaves_the_checkpoints(tmp_path):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    model, save = tiny_model(), SaveCheckpoints(tmp_path, every_steps=2)
    fill = At(3, lambda callback: resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1])))
    try:
        with pytest.raises(OSError, match=r"the checkpoint of step 4 could not be written to .*, whose other") as error:
            fit(model, 8, [fill, save])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert error.value.errno == errno.EFBIG  # in the middle of the arrays
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".lock")] == ["step-00000002"]
    assert save.folder.newest().step == 2
    fit(model, 2, [SaveCheckpoints(tmp_path, initial_step=4)])
    assert save.folder.newest().step == 6


def test_without_a_step_there_is_no_checkpoint(tmp_path):
    save = SaveCheckpoints(tmp_path / "run", initial_step=5)
    fit(tiny_model(), 2, [save], initial_epoch=1, epochs=1)
    assert not (tmp_path / "run").exists()


def test_wrong_arguments_are_reported(tmp_path):
    with pytest.raises(ValueError, match="every_steps must be at least 1 batch, or None; got 0"):
        SaveCheckpoints(tmp_path, every_steps=0)
    with pytest.raises(ValueError, match="every_seconds must be above 0, or None; got 0"):
        SaveCheckpoints(tmp_path, every_seconds=0)
