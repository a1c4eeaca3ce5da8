"""Outputs of transformers for files that it wrote (tests/parity/make_golden.py), and their contents, name by name."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers import minilm
from helpers.hostile_inputs import EXHAUSTIVE
from helpers.small import answers

from keras_bert_rebuild import from_pretrained, save_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/golden.npz"))


@pytest.mark.backend
def test_every_family_has_golden_files():
    assert {case.split("_")[0] for case in CASES} == {
        "albert",
        "bert",
        "deberta",
        "distilbert",
        "electra",
        "gte",
        "modernbert",
        "nomic",
        "roberta",
        "xlm",
        "xlnet",
    }


@pytest.mark.backend
@pytest.mark.backend(all_cases=True)
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_transformers(case):
    golden = np.load(GOLDEN / case / "golden.npz")
    ids, segments = golden["ids"], golden["segments"]
    model = from_pretrained(GOLDEN / case)
    real = ids != model.config.pad_token_id
    outputs = answers(model, ids, segments)
    assert len(outputs) == len(golden.files) - 2
    for i, got in enumerate(outputs):
        expected = golden[str(i)]
        if expected.shape[:2] == ids.shape:
            expected, got = expected[real], got[real]
        np.testing.assert_allclose(got, expected, atol=1e-5)


LENGTHS = range(1, 513) if EXHAUSTIVE else [*range(1, 65), *range(80, 513, 24)]


@pytest.mark.backend
@pytest.mark.slow(torch=True)
def test_a_trained_model_agrees_with_transformers_at_lengths_from_1_to_512():
    golden = np.load(GOLDEN / "minilm.npz")
    np.testing.assert_array_equal(minilm.text_ids(), golden["ids"])
    model = from_pretrained(minilm.FOLDER)
    lengths = np.array(LENGTHS)
    for start in range(0, len(lengths), 32):
        batch = lengths[start : start + 32]
        ids = np.where(np.arange(batch[-1])[None] < batch[:, None], golden["ids"][None, : batch[-1]], 0)
        states, pooled = (np.asarray(output) for output in model.predict_on_batch([ids, np.zeros_like(ids)]))
        got = [minilm.summary(states[i, :n], pooled[i]) for i, n in enumerate(batch)]
        np.testing.assert_allclose(np.stack(got), golden["summaries"][batch - 1], atol=1e-5)


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
