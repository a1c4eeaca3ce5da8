"""`keras-bert prune`: a smaller model, with what it costs, written whole or not at all."""

import json

import numpy as np
import pytest
from helpers.small_tasks import PETS, small_task

from keras_bert_rebuild import TextClassifier, load_task
from keras_bert_rebuild.cli.main import main


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A saved classifier, and its examples as a table."""
    folder = tmp_path_factory.mktemp("prune")
    small_task(TextClassifier, labels=["cat", "dog"]).save(folder / "model")
    (folder / "pets.tsv").write_text("text\tlabel\n" + "".join(f"{pet.text}\t{pet.label}\n" for pet in PETS))
    return folder


def test_the_model_is_smaller_and_the_cost_is_shown(files, tmp_path, capsys):
    output = tmp_path / "smaller"
    asked = ["prune", "--model", str(files / "model"), "--amount", "0.5", "--dev", str(files / "pets.tsv"), "--output", str(output)]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("heads    2 of 4 removed, ranked on 6 examples in ")
    assert lines[1:3] == ["         block 0: 0", "         block 1: 0"]
    pruned = load_task(output)
    before, after = (task.model.count_params() for task in (load_task(files / "model"), pruned))
    assert before - after == 2 * (4 * 16 * 8 + 3 * 8)
    assert lines[3] == f"weights  {before:,} → {after:,} parameters, {1 - after / before:.1%} less"
    scores = pruned.scores(PETS, pruned([pet.text for pet in PETS]))
    assert f"→ {scores['accuracy']:.4f}" in next(line for line in lines if line.startswith("accuracy"))
    assert json.loads((output / "config.json").read_text())["pruned_heads"] == {"0": [0], "1": [0]}
    assert np.prod(pruned.model.get_layer("Encoder-1-MultiHeadSelfAttention").query_dense.kernel.shape) == 16 * 8


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--amount": "0"}, "--amount must be above 0 and at most 1; got 0.0"),
        ({"--dev": "missing.tsv"}, "missing.tsv"),
    ],
)
def test_what_a_user_gets_wrong_is_a_sentence_and_nothing_is_written(files, tmp_path, capsys, changes, words):
    options = {"--amount": "0.5", "--dev": str(files / "pets.tsv"), "--output": str(tmp_path / "smaller"), **changes}
    assert main(["prune", "--model", str(files / "model"), *(word for pair in options.items() for word in pair)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert not (tmp_path / "smaller").exists()


def test_a_model_that_is_there_is_replaced_only_if_that_is_said(files, tmp_path, capsys):
    output = tmp_path / "smaller"
    asked = ["prune", "--model", str(files / "model"), "--amount", "0.5", "--dev", str(files / "pets.tsv"), "--output", str(output)]
    assert main(asked) == 0
    before = (output / "model.safetensors").read_bytes()
    capsys.readouterr()
    assert main(asked) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*asked[:4], "0.1", *asked[5:], "--overwrite"]) == 0
    assert (output / "model.safetensors").read_bytes() != before
    assert main(["prune", "--model", str(files / "model"), *asked[3:-1], str(files / "model"), "--overwrite"]) == 2
