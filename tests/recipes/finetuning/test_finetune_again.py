"""A repeated fine-tuning retains the results of a finished one, and checks everything before it trains."""

import json
import os
import sys
from pathlib import Path

import keras
import pytest
from helpers.small_tasks import PETS, TOKENIZER, small_encoder

from keras_bert_rebuild import TextClassifier, finetune, predict
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TaggedWords

QUICK = {"batch_size": 4, "jit_compile": keras.config.backend() == "jax", "max_len": 16, "epochs": 2, "evaluate_steps": 1}


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    from keras_bert_rebuild import save_pretrained

    folder = tmp_path_factory.mktemp("encoder") / "model"
    save_pretrained(small_encoder(), folder, vocabulary=list(TOKENIZER.vocabulary))
    return folder


class Killed(BaseException):
    """Ends a run as a kill does."""


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
