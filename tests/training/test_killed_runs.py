"""Trainings killed at random moments, also in the midst of a checkpoint, end with the bits of one that nothing disturbed."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killed_run import EVERY, SYNCS

from keras_bert_rebuild.training.checkpoint_folder import CheckpointFolder

SCRIPT = Path(__file__).parents[1] / "killed_run.py"


def run(folder, steps, *death, at=None, wait=0.0):
    """Train in a process of its own and kill it so many seconds after a step, if it is given; whether it came to its end."""
    command = [sys.executable, str(SCRIPT), str(folder), str(steps), *map(str, death)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            if at is not None and int(line) >= at:
                time.sleep(wait)
                process.kill()
                break
        errors = process.communicate(timeout=120)[1]
    assert process.returncode in (0, -9), errors
    return process.returncode == 0


def last_bytes(folder, step):
    newest = CheckpointFolder(folder).newest()
    assert newest.step == step
    return (newest.path / "state.safetensors").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")
@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [3, pytest.param(20, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])], ids=["some", "many"]
)
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(tmp_path, kills):
    steps = 8 * kills
    assert run(tmp_path / "undisturbed", steps)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # pytest shows it when the test fails
    choice = random.Random(seed)
    folder, in_write = tmp_path / "killed", 0
    for kill in range(kills):
        newest = CheckpointFolder(folder).newest()
        done = newest.step if newest else 0
        if kill % 2 == 0:
            ended = run(folder, steps, done + EVERY, choice.randrange(SYNCS))
            in_write += any(entry.suffix == ".writing" for entry in folder.iterdir())
        else:
            ended = run(folder, steps, at=done + 1, wait=choice.uniform(0, 0.05))
        assert not ended, f"seed {seed}: it came to its end before it was killed"
    assert in_write >= kills / 4
    assert run(folder, steps)
    assert last_bytes(folder, steps) == last_bytes(tmp_path / "undisturbed", steps), f"seed {seed}: other bits after {kills} kills"
    assert len(list(folder.iterdir())) == 2
