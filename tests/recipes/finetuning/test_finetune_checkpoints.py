"""A fine-tuning that was killed or stopped resumes at its exact batch and ends with the same bytes."""

import csv
import os
import signal

import keras
import pytest
from helpers.small_tasks import TOKENIZER, small_encoder

from keras_bert_rebuild import finetune, save_pretrained
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TextGroup
from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError

# Two lengths, of which an epoch has three batches of the one and one of the other.
TEXTS = [ClassifiedText(("the cat sat on the mat " * (4 if i % 4 == 3 else 1)).strip(), label="xy"[i % 2]) for i in range(16)]
SETTINGS = {
    "batch_size": 4,
    "epochs": 2,
    "learning_rate": 1e-2,
    "max_len": 32,
    "log_steps": 2,
    "save_steps": 2,
    "evaluate_steps": 3,
    "jit_compile": keras.config.backend() == "jax",
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "model"
    save_pretrained(small_encoder(hidden_dropout_prob=0.2), folder, vocabulary=list(TOKENIZER.vocabulary))
    return folder


@pytest.fixture(scope="module")
def whole(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    finetune("classification", encoder, TEXTS, TEXTS, folder, **SETTINGS)
    return folder


class Killed(BaseException):
    """Ends a run as a kill does."""


def at_step(step, act):
    def report(row):
        if row["step"] == step and "loss" in row:
            act()

    return report


def kill():
    raise Killed


def curve(folder):
    """The rows of the curve, without the rates of the machine."""
    with (folder / "metrics.csv").open() as file:
        return [{name: value for name, value in row.items() if name != "examples_per_second"} for row in csv.DictReader(file)]


def check_same(folder, whole):
    assert (folder / "model/model.safetensors").read_bytes() == (whole / "model/model.safetensors").read_bytes()
    assert not (folder / "checkpoints").exists()
    rows = curve(folder)
    assert {row["step"] for row in curve(whole)} <= {row["step"] for row in rows}
    assert rows[-1] == curve(whole)[-1]
    return rows


# From the middle of the first epoch, from its end, and from the second, with an evaluation that the checkpoint knows.
@pytest.mark.parametrize(("step", "resumed"), [(3, 2), (6, 4), (8, 6)])
def test_a_killed_run_goes_on_from_its_checkpoint_to_the_same_bytes(encoder, whole, tmp_path, step, resumed):
    with pytest.raises(Killed):
        finetune("classification", encoder, TEXTS, TEXTS, tmp_path / "run", report=at_step(step, kill), **SETTINGS)
    assert list((tmp_path / "run/checkpoints").glob("step-*"))
    seen = []
    finetune("classification", encoder, TEXTS, TEXTS, tmp_path / "run", report=seen.append, **SETTINGS)
    assert seen[0]["step"] == resumed
    assert check_same(tmp_path / "run", whole) == curve(whole)


def test_a_signal_stops_a_run_after_its_step_and_the_same_call_resumes_it(encoder, whole, tmp_path):
    interrupt = at_step(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    arguments = "classification", encoder, TEXTS, TEXTS, tmp_path / "run"
    with pytest.raises(StoppedError, match=r"after step 3 of 8, which is in a checkpoint") as stopped:
        finetune(*arguments, report=interrupt, **SETTINGS)
    assert stopped.value.signal == signal.SIGINT
    finetune(*arguments, **SETTINGS)
    assert check_same(tmp_path / "run", whole) == curve(whole)


PETS, PLACES = ("cat", "dog", "anna", "ben"), ("paris", "london", "the mat", "a mat")
GROUPS = [TextGroup(f"who likes {place} ?", f"the {pet} likes {place} .", ("red", "the cat")) for pet in PETS for place in PLACES]
# What each has besides weights: the seeds and the factor of a model of its own; the step of a price; drawn negatives.
OTHERS = {
    "retrieval": {"learned_temperature": True, "chunk": 1},
    "sparse_retrieval": {"flops": (1e-3, 1e-3)},
    "late_interaction": {},
    "rerank": {"negatives": 3},
}


@pytest.mark.parametrize("task", OTHERS)
def test_trainings_for_search_are_resumed_to_the_same_bytes(task, tmp_path):
    folder = tmp_path / "encoder"
    heads = ("mlm",) if task == "sparse_retrieval" else ("pooler",)
    save_pretrained(small_encoder(heads, hidden_dropout_prob=0.2), folder, vocabulary=list(TOKENIZER.vocabulary))
    arguments, settings = (task, folder, GROUPS, GROUPS[:4]), {**SETTINGS, **OTHERS[task]}
    finetune(*arguments, tmp_path / "whole", **settings)
    with pytest.raises(Killed):
        finetune(*arguments, tmp_path / "run", report=at_step(3, kill), **settings)
    seen = []
    finetune(*arguments, tmp_path / "run", report=seen.append, **settings)
    assert seen[0]["step"] == 2
    assert check_same(tmp_path / "run", tmp_path / "whole") == curve(tmp_path / "whole")
