"""Run a foreign runtime in a separate process that cannot import this library."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np


def run_foreign(script, folder, texts, scratch, seconds=300):
    """The outputs of an exported folder for texts, arrays by name."""
    (scratch / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    command = [sys.executable, "-I", str(Path(__file__).parent / script), str(folder), str(scratch / "texts.json")]
    done = subprocess.run([*command, str(scratch / "answers.npz")], capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(scratch / "answers.npz") as file:
        return dict(file)
