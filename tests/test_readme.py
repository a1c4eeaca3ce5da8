"""The README's blocks do what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_the_first_block_is_the_two_commands():
    assert blocks("")[0] == "pip install . && keras-bert demo\npip install tox && tox\n"


def test_the_python_blocks_run_one_after_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)
    assert "Total params: 109,705,010" in capsys.readouterr().out
    assert namespace["words"][0][0][0] == "play"


def test_the_command_runs_as_installed_and_beats_the_unigram(tmp_path):
    """The first command of the README after its installation, with fewer steps."""
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
