"""The contents of a checkpoint, name by name."""

import json
import math
from pathlib import Path

import pytest

from keras_bert_rebuild import from_pretrained, save_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/golden.npz"))


@pytest.mark.parametrize("case", CASES)
def test_every_name_has_a_variable_and_is_loaded_into_it(case):
    found = inspect_checkpoint(GOLDEN / case)
    loaded = from_pretrained(GOLDEN / case).load_report.loaded
    rows = {(path, row.name, row.shape) for row in found["names"] for path in row.path.split(", ")}
    assert rows == set(loaded)
    assert all(row.parameters == math.prod(row.shape) for row in found["names"])


def test_our_files_are_inspected_too(tmp_path):
    model = from_pretrained(GOLDEN / "bert_pretraining")
    save_pretrained(model, tmp_path / "ours", "keras")
    found = inspect_checkpoint(tmp_path / "ours")
    assert sum(row.parameters for row in found["names"]) == model.count_params()
    assert found["heads"] == ["mlm", "nsp"]


def test_the_command_prints_names_and_those_without_a_variable(capsys, tmp_path):
    assert main(["inspect", "--model", str(GOLDEN / "bert_classification")]) == 0
    said = capsys.readouterr().out
    assert "heads       classification" in said
    assert "bert.encoder.layer.1.output.dense.weight" in said
    assert "Every weight has a variable." in said
    assert main(["inspect", "--format", "json", "--model", str(GOLDEN / "bert_classification")]) == 0
    assert json.loads(capsys.readouterr().out)["family"] == "bert"


def test_the_command_converts_there_and_back(capsys, tmp_path):
    assert (
        main(["convert", "--model", str(GOLDEN / "bert_pretraining"), "--output", str(tmp_path / "google"), "--format", "google"])
        == 0
    )
    assert "loaded   46 arrays, 3,586 parameters; 0 not used" in capsys.readouterr().out
    assert (
        main(["convert", "--model", str(tmp_path / "google"), "--output", str(tmp_path / "back"), "--format", "huggingface"]) == 0
    )
    before, after = (folder / "model.safetensors" for folder in (GOLDEN / "bert_pretraining", tmp_path / "back"))
    assert before.stat().st_size == after.stat().st_size


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "--model", "bert-base-uncased"],
        ["convert", "--model", "no/such/folder", "--output", "target", "--format", "keras"],
        ["convert", "--model", str(GOLDEN / "roberta"), "--output", "{tmp}/target", "--format", "google"],
        ["convert", "--model", str(GOLDEN / "bert"), "--output", __file__, "--format", "keras"],
    ],
)
def test_an_impossible_conversion_is_one_sentence_and_leaves_nothing(capsys, tmp_path, arguments):
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"keras-bert {arguments[0]}: ")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
