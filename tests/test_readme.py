"""The blocks of the README run and give the stated results."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.page_blocks import blocks, run_blocks

README = Path(__file__).parents[1] / "README.md"
pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def test_the_first_block_is_the_two_commands():
    assert blocks(README)[0] == ("", "pip install . && keras-bert demo\npip install tox && tox\n")


def test_the_blocks_run_one_after_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = run_blocks(README)
    out = capsys.readouterr().out
    assert out.count("109,705,010") >= 3  # model.summary, print_summary, explain
    assert namespace["words"][0][0][0] == "play"
    assert namespace["vectors"].shape == (2, 25)
    assert namespace["done"].scores["accuracy"] >= 0.5
    for path in ("vectors.npy", "answers.jsonl", "attention.html", "pretrained/model/model.safetensors", "served/1/saved_model.pb"):
        assert (tmp_path / path).is_file(), path


def test_the_command_runs_as_installed_and_beats_the_unigram(tmp_path):
    """The README's first command after the installation, with fewer steps."""
    command = Path(sys.executable).with_name("keras-bert")
    done = subprocess.run(
        [str(command), "demo", "--steps", "500", "--output", "out"], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Total params: 109,705,010" in done.stdout
    loss, unigram = map(float, re.search(r"MLM loss\s+([\d.]+) nats\s+unigram ([\d.]+)", done.stdout).groups())
    assert loss < unigram - 0.2
    assert "predictions differ by 0.0" in " ".join(done.stdout.split())
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"bert.keras", "vocab.txt"}
