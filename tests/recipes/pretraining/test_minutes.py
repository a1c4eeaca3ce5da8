"""`pretrain` in minutes, with a clock that is set by hand: a whole run, and one that is stopped and resumed."""

import os
import shutil
import signal

import keras
import numpy as np
import pytest
import yaml
from helpers import small_runs

from keras_bert_rebuild.recipes.pretraining import step_spans, training_run
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

MINUTES = {name: value for name, value in small_runs.FOUR_STEPS.items() if name not in ("steps", "evaluate_steps")}
MINUTES |= {"minutes": 0.25, "schedule": "trapezoidal", "optimizer": "stable_adamw", "keep_checkpoints": 99}


class Clock:
    """Shows a second more after every batch, and is where it was when a process begins."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A clock that only training moves: a second for a step of two batches."""
    clock, made = Clock(), training_run.StopOnSignal.on_train_batch_end

    def passing(self, batch, logs=None):
        clock.now += 0.5
        made(self, batch, logs)

    monkeypatch.setattr(step_spans, "time", clock)
    monkeypatch.setattr(training_run.StopOnSignal, "on_train_batch_end", passing)
    monkeypatch.setattr("keras_bert_rebuild.recipes.pretraining.pretrain.time", clock)
    return clock


@pytest.mark.slow(torch=True)
def test_the_run_takes_its_time_and_after_a_stop_ends_with_the_same_weights(monkeypatch, clock, corpus, tmp_path):
    rows = []
    model = pretrain(corpus, tmp_path / "whole", MINUTES, report=rows.append)
    assert rows[-1]["step"] == rows[-1]["steps"] == 15
    assert clock.now == 15.0
    assert rows[-1]["learning_rate"] < 0.25 * 1e-2
    assert sum("held_out_loss" in row for row in rows) == 10
    facts = CheckpointFolder(tmp_path / "whole" / "checkpoints").newest().facts["budget"]
    assert facts["seconds"] == 15.0
    assert [correction[3] for correction in facts["corrections"]] == [15]
    settings = yaml.safe_load((tmp_path / "whole" / "settings.yaml").read_text())
    assert settings["minutes"] == 0.25
    assert settings["phases"][0]["share"] == 1.0

    def stopping(row):
        if row["step"] >= 8:
            os.kill(os.getpid(), signal.SIGTERM)

    clock.now = 100.0
    with pytest.raises(StoppedError, match="of 15, which is in a checkpoint"):
        pretrain(corpus, tmp_path / "stopped", MINUTES, report=stopping)
    clock.now = 7777.0
    resumed = pretrain(corpus, tmp_path / "stopped", MINUTES)
    for one, other in zip(resumed.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)), err_msg=one.path)
    arrays = [CheckpointFolder(tmp_path / name / "checkpoints").newest().sha256 for name in ("whole", "stopped")]
    assert arrays[0] == arrays[1]


@pytest.mark.slow(torch=True)
def test_phases_are_shares_of_the_time_and_a_kill_between_checkpoints_repeats_what_was_lost(clock, corpus, tmp_path):
    settings = {**MINUTES, "batch_warmup": [2], "minutes": 0.5}
    pretrain(corpus, tmp_path / "whole", settings)
    checkpoints = CheckpointFolder(tmp_path / "whole" / "checkpoints")
    facts = checkpoints.newest().facts["budget"]
    assert facts["seconds"] == 30.0
    assert facts["ends"] == [2 * 6]  # after three steps that measure, a tenth of the others; each has two batches
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "whole", killed)
    shutil.rmtree(killed / "model")
    for step in checkpoints.steps()[4:]:
        shutil.rmtree(killed / "checkpoints" / f"step-{step:08d}")
    pretrain(corpus, killed, settings)
    assert CheckpointFolder(killed / "checkpoints").newest().sha256 == checkpoints.newest().sha256


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"steps": 5}, "minutes choose the number of steps; got minutes=1 and steps=5"),
        ({"warmup_steps": 5}, "warmup_steps must be left out with minutes, whose steps are not known; got 5"),
        ({"decay_from": "run"}, "decay_from must be left out with minutes"),
        ({"minutes": 0}, "minutes must be a number above 0; got 0"),
        ({"schedule": "trapezoidal", "decay_fraction": 0.95}, "must fit into the run; got 10% and 95% of it"),
    ],
)
def test_settings_that_exclude_each_other_are_errors(settings, said):
    with pytest.raises(ValueError, match=said):
        PretrainSettings(**{"minutes": 1, **settings})
