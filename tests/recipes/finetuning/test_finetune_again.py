"""A fine-tuning in the folder of an earlier start resumes at its exact batch, or retains finished results until it has new ones."""

import csv
import json
import os
import signal
import sys
from pathlib import Path

import keras
import pytest
from helpers.small_tasks import PETS, TOKENIZER, small_encoder

from keras_bert_rebuild import TextClassifier, finetune, predict, save_pretrained
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TaggedWords, TextGroup
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


ANIMALS, PLACES = ("cat", "dog", "anna", "ben"), ("paris", "london", "the mat", "a mat")
GROUPS = [
    TextGroup(f"who likes {place} ?", f"the {pet} likes {place} .", ("red", "the cat")) for pet in ANIMALS for place in PLACES
]
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


QUICK = {"batch_size": 4, "jit_compile": keras.config.backend() == "jax", "max_len": 16, "epochs": 2, "evaluate_steps": 1}


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_second_run_that_is_killed_leaves_report_model_and_curve_of_the_first(encoder, tmp_path):
    run = tmp_path / "run"
    finetune("classification", encoder, PETS, PETS, run, **QUICK)
    before = files(run)
    assert {"report.json", "report.md", "confusion.svg", "metrics.csv", "model/model.safetensors"} <= before.keys()

    def killed(row):
        if row["step"] == 3 and "loss" in row:  # two evaluations have saved a model
            raise Killed

    with pytest.raises(Killed):
        finetune("classification", encoder, PETS, PETS, run, report=killed, **QUICK)
    after = files(run)
    assert len(after.pop("versions.yaml")) > len(before.pop("versions.yaml"))  # it records every start
    assert after == before
    finetune("classification", encoder, PETS, PETS, run, **QUICK)
    assert files(run)["metrics.csv"] != before["metrics.csv"]  # the rates differ in six digits, the seconds of a report not always
    assert not [name for name in os.listdir(run) if name.startswith(".")]


@pytest.mark.parametrize(
    ("task", "examples"),
    [
        ("classification", [ClassifiedText("a", label="\ud800"), ClassifiedText("b", label="x")]),
        ("multi_label", [ClassifiedText("a", label=["\udfff"]), ClassifiedText("b", label=["x"])]),
        ("token_classification", [TaggedWords(("a",), ("\udc80",)), TaggedWords(("b",), ("O",))]),
    ],
)
def test_a_label_that_a_report_cannot_hold_is_refused_before_anything_is_read(task, examples, tmp_path):
    with pytest.raises(ValueError, match=r"a label must be text that UTF-8 can encode; example 0 has '\\ud"):
        finetune(task, "no such model", examples, examples, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names in UTF-8 only")
def test_a_path_that_is_not_utf_8_is_in_the_report(encoder, tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.tsv")
    Path(name).write_text("\n".join(f"{pet.text}\t{pet.label}" for pet in PETS))
    for _ in range(2):  # and is the same when the run exists
        finetune("classification", encoder, name, name, tmp_path / "run", **QUICK)
    assert json.loads((tmp_path / "run" / "report.json").read_bytes())["settings"]["train"] == name


def test_predict_checks_before_its_work_that_its_output_can_be_written(tmp_path, monkeypatch):
    task = TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("x", "y"))
    monkeypatch.setattr(task, "predict_examples", lambda *_, **__: pytest.fail("it answers"))
    (tmp_path / "in.txt").write_text("the cat\n")

    def read_only(path, flags, mode=0o777, **options):
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, mode, **options)

    opened = os.open
    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(PermissionError, match=r"out\.tsv"):
        predict(task, tmp_path / "in.txt", tmp_path / "out.tsv")


def test_predict_escapes_half_a_surrogate_pair_as_in_json(tmp_path):
    task = TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("x", "y"))
    (tmp_path / "in.jsonl").write_text('{"text": "the \\ud800 cat"}\n')
    predict(task, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_bytes())["text"] == "the \ud800 cat"
