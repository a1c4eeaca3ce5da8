"""A trapezoidal run continued from a checkpoint ends with the bits of a run whose decay was planned for that step."""

import os
import shutil

import keras
import numpy as np
import pytest
import yaml
from helpers import small_runs

from keras_bert_rebuild.recipes.pretraining.decay_from import with_decay
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

TRAPEZOID = {
    **small_runs.FOUR_STEPS,
    "steps": 8,
    "schedule": "trapezoidal",
    "warmup_steps": 1,
    "decay_fraction": 0.25,
    "optimizer": "muon",
    "evaluate_steps": 2,
    "keep_checkpoints": 9,
}


@pytest.fixture(scope="module")
def long(corpus, tmp_path_factory):
    """The folder of a run of eight steps, of which the rate falls in the last two."""
    folder = tmp_path_factory.mktemp("runs") / "long"
    pretrain(corpus, folder, TRAPEZOID)
    return folder


def digest(folder):
    return CheckpointFolder(folder / "checkpoints").newest().sha256


def decayed(corpus, long, output, **given):
    given = {"tensorboard": False, "workers": 0, "evaluation_steps": 2, "log_steps": 2, "evaluate_steps": 2, **given}
    return pretrain(corpus, output, decay_from=str(long), **given)


@pytest.mark.slow(torch=True)
def test_it_ends_with_the_bits_of_a_run_that_fell_there_from_the_start_also_when_stopped(corpus, long, tmp_path):
    rows = []
    model = decayed(corpus, long, tmp_path / "short", decay_step=4, steps=6, report=rows.append)
    assert [row["step"] for row in rows] == [4, 6]
    straight = {**TRAPEZOID, "steps": 6, "decay_fraction": 2 / 6}
    other = pretrain(corpus, tmp_path / "straight", straight)
    assert digest(tmp_path / "short") == digest(tmp_path / "straight")
    for one, theirs in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, theirs)), err_msg=one.path)
    resumed = tmp_path / "resumed"
    shutil.copytree(tmp_path / "short", resumed)
    shutil.rmtree(resumed / "model")
    for name in os.listdir(resumed / "checkpoints"):
        shutil.rmtree(resumed / "checkpoints" / name, ignore_errors=True)
    decayed(corpus, long, resumed, steps=6)  # the step is that of the folder
    assert digest(resumed) == digest(tmp_path / "short")


@pytest.mark.slow
def test_without_a_step_it_falls_from_the_newest_checkpoint_before_the_fall_for_the_same_fraction(corpus, long, tmp_path):
    decayed(corpus, long, tmp_path / "run", decay_shape="linear")
    settings = yaml.safe_load((tmp_path / "run" / "settings.yaml").read_text())
    assert (settings["decay_step"], settings["phases"][0]["steps"], settings["warmup_steps"]) == (6, 8, 1)
    assert (settings["decay_fraction"], settings["decay_shape"], settings["optimizer"]) == (0.25, "linear", "muon")
    assert settings["decay_from"] == str(long)


def written(folder, **settings):
    """A folder with the settings of a trapezoidal run, and empty checkpoints of its steps 4 and 6."""
    accumulation = settings.get("gradient_accumulation_steps", 1)
    for step in (4, 6):
        (folder / "checkpoints" / f"step-{step * accumulation:08d}").mkdir(parents=True)
    steps = {} if "phases" in settings else {"steps": 10}
    known = PretrainSettings(**{"schedule": "trapezoidal", "decay_fraction": 0.25, **steps, **settings})
    (folder / "settings.yaml").write_text(yaml.safe_dump({**known.resolved(), "corpus": {}}))
    return folder


TWO_LENGTHS = [{"steps": 4, "batch_size": 8, "seq_len": 8}, {"steps": 4, "batch_size": 4, "seq_len": 16}]


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 4, "seq_len": 16, "gradient_accumulation_steps": 2, "learning_rate": 0.01, "schedule": "trapezoidal"},
        {"max_predictions": 4, "mask_rate": 0.3, "seq_len": 16},
        {"batch_size": 8, "batch_warmup": [2, 4], "batch_warmup_steps": 3},
        {"phases": TWO_LENGTHS, "mask_rate": 0.3},
        {"phases": TWO_LENGTHS, "batch_size": 64},
        {"objective": "electra", "generator_size": 0.5, "packing": True, "masking": "whole_word"},
        {"warmup_fraction": 0.25},
        {"warmup_steps": 2},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_settings_equal_to_those_of_the_run_may_be_given_in_any_selection(tmp_path, settings):
    run = written(tmp_path / "long", **settings)
    alone = with_decay(PretrainSettings(decay_from=str(run)), tmp_path / "new")
    needed = ("objective", "packing", "batch_warmup", "batch_warmup_steps", "phases")  # by another of them
    for left_out in (None, *(name for name in settings if name not in needed)):
        given = {name: value for name, value in settings.items() if name != left_out}
        assert with_decay(PretrainSettings(decay_from=str(run), **given), tmp_path / "new") == alone


@pytest.mark.parametrize(
    ("settings", "given", "said"),
    [
        ({"batch_size": 4}, {"batch_size": 8}, "batch_size is 8 and was 4"),
        ({"seq_len": 64}, {"seq_len": 32, "batch_size": 16}, "batch_size is 16 and was 32; seq_len is 32 and was 64"),
        ({"phases": TWO_LENGTHS}, {"batch_size": 4}, r"batch_size is 4 and was \[8, 4\]"),
        ({"phases": TWO_LENGTHS}, {"phases": TWO_LENGTHS[1:]}, "phases is .* and was .*"),
        ({"batch_warmup": [4]}, {"batch_warmup": [8]}, r"batch_warmup is \[8\] and was \[4\]"),
        ({}, {"schedule": "cosine"}, "schedule is 'cosine' and was 'trapezoidal'"),
        ({"warmup_fraction": 0.25}, {"warmup_fraction": 0.5}, "warmup_fraction is 0.5 and was 0.25"),
    ],
)
def test_settings_that_differ_from_those_of_the_run_are_listed(tmp_path, settings, given, said):
    run = written(tmp_path / "long", **settings)
    with pytest.raises(ValueError, match=rf"with its own settings: .*{said}.*\. Leave them out\."):
        with_decay(PretrainSettings(decay_from=str(run), **given), tmp_path / "new")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decay_step": 3}, "must have a checkpoint of step 3 in .*; it has 2, 4, 6, 8: see keep_checkpoints"),
        ({"decay_step": 8}, "decay_step must be from 1 to 6, where the learning rate of .* is constant; got 8"),
        ({"decay_step": 6, "steps": 6}, "steps must be above decay_step, .*; got steps=6 and decay_step=6"),
        ({"learning_rate": 0.5}, "with its own settings: learning_rate is 0.5 and was 0.01. Leave them out"),
        (
            {"steps": 7, "decay_fraction": 0.5, "schedule": "trapezoidal"},
            "must end by either steps or decay_fraction; got 7 and 0.5",
        ),
    ],
)
def test_a_fall_that_cannot_begin_is_refused_before_anything_is_written(corpus, long, tmp_path, given, said):
    with pytest.raises(ValueError, match=said):
        decayed(corpus, long, tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_the_other_run_must_be_a_trapezoidal_one(corpus, tmp_path):
    with pytest.raises(ValueError, match="decay_from must be the folder of a run, with its settings"):
        decayed(corpus, tmp_path, tmp_path / "run")
    for settings, said in (
        (PretrainSettings(steps=10), "schedule='trapezoidal', with a constant learning rate before its decay; .* has 'linear'"),
        (
            PretrainSettings(minutes=1, schedule="trapezoidal"),
            "without minutes, with a constant learning rate before its decay; .* has 1",
        ),
    ):
        (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings.resolved()))
        with pytest.raises(ValueError, match=said):
            decayed(corpus, tmp_path, tmp_path / "run")
    with pytest.raises(ValueError, match="decay_step is a step of the run in decay_from; got 3 and no run"):
        PretrainSettings(decay_step=3)
