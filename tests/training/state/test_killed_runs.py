"""Trainings killed at random moments, also while a checkpoint is written, end with the bits of an uninterrupted one."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from helpers import killed_run
from helpers.exhaustive import only_exhaustive
from helpers.small_corpus import SPECIAL

from keras_bert_rebuild.cli.main import main as keras_bert
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

SCRIPT = Path(__file__).parents[2] / "helpers" / "killed_run.py"

# Dropout is that of BERT, 0.1. A checkpoint every 4 batches.
SETTINGS = {
    "model": {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16},
    "steps": 250,
    "batch_size": 4,
    "seq_len": 16,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-2,
    "ema": 0.9,
    "held_out": 0,
    "save_steps": 2,
    "workers": 2,
    "tensorboard": False,
}
BATCHES = SETTINGS["steps"] * SETTINGS["gradient_accumulation_steps"]

pytestmark = [pytest.mark.backend, pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")]


def run(command, log, is_now=None, wait=0.0, number=signal.SIGKILL):
    """Run Python in a separate process; its return code.

    Args:
        command: the arguments of `python`.
        log: a file for its output.
        is_now: called repeatedly; once it returns true, the process gets a signal. None: it gets none.
        wait: seconds from then to the signal.
        number: the number of the signal.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with log.open("ab") as file, subprocess.Popen([sys.executable, *command], stdout=file, stderr=file, env=environment) as process:
        while is_now is not None and process.poll() is None:
            if is_now():
                time.sleep(wait)
                process.send_signal(number)
                break
            time.sleep(0.0005)
        return process.wait()


def last_step(folder):
    return max(CheckpointFolder(folder).steps(), default=0)


def is_writing(folder, after=0):
    """Whether a checkpoint after that step is half written."""
    names = os.listdir(folder) if folder.is_dir() else []
    return any(int(match[1]) > after for match in map(re.compile(r"\.step-(\d+)\.writing").fullmatch, names) if match)


def last_bytes(folder, step):
    newest = CheckpointFolder(folder).newest()
    assert newest.step == step
    return (newest.path / "state.safetensors").read_bytes()


def new_random():
    """Random numbers that differ in every run; pytest shows their seed when the test fails."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.slow(torch=True)
def test_a_training_killed_three_times_ends_with_the_same_bits(tmp_path):
    kills, steps, choice = 3, 90, new_random()
    killed_run.main(tmp_path / "undisturbed", steps)
    folder, log, in_write = tmp_path / "killed", tmp_path / "log", 0
    for kill in range(kills):
        done = last_step(folder)
        command = [str(SCRIPT), str(folder), str(steps)]
        if kill % 2 == 0:  # it kills itself
            death = (done + killed_run.EVERY, killed_run.BEFORE if kill == 2 else choice.randrange(killed_run.SYNCS))
            code = run([*command, *map(str, death)], log)
        else:
            code = run(command, log, lambda done=done: last_step(folder) > done, choice.uniform(0, 0.1))
        assert code == -signal.SIGKILL, log.read_text()
        in_write += is_writing(folder)
    assert in_write >= kills / 4
    killed_run.main(folder, steps)
    assert last_bytes(folder, steps) == last_bytes(tmp_path / "undisturbed", steps)
    assert len(list(folder.iterdir())) == 2


@pytest.fixture
def command(tmp_path):
    """The arguments of `keras-bert pretrain` on a store, without the output."""
    words, choice = [f"w{i}" for i in range(50)], random.Random(0)
    passages = [" ".join(choice.choices(words, k=choice.randint(3, 9))) for _ in range(180)]
    vocabulary, corpus, store, config = (str(tmp_path / name) for name in ("vocab.txt", "corpus.txt", "store", "settings.yaml"))
    Path(vocabulary).write_text("\n".join([*SPECIAL, *words]))
    Path(corpus).write_text("\n\n".join("\n".join(passages[i : i + 6]) for i in range(0, 180, 6)))
    Path(config).write_text(yaml.safe_dump(SETTINGS))
    assert keras_bert(["prepare", corpus, "--tokenizer", vocabulary, "--output", store]) == 0
    return ["-m", "keras_bert_rebuild.cli.main", "pretrain", store, "--settings", config, "--output"]


@only_exhaustive
@pytest.mark.timeout(3600)
def test_the_command_killed_twenty_times_ends_with_the_same_files(tmp_path, command):
    kills, choice, log = 20, new_random(), tmp_path / "log"
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "killed"
    checkpoints, killed, in_write = folder / "checkpoints", 0, 0
    began = time.monotonic()
    assert run([*command, str(undisturbed)], log) == 0, log.read_text()
    seconds = time.monotonic() - began
    while killed < kills or in_write < kills / 4:
        later = last_step(checkpoints) + choice.randrange(12)
        moment = time.monotonic() + choice.uniform(0, seconds)
        in_a_write = (lambda later=later: is_writing(checkpoints, later), choice.uniform(0, 0.003))
        behind_one = (lambda later=later: last_step(checkpoints) > later, choice.uniform(0, 0.3))
        sometime = (lambda later=later, moment=moment: time.monotonic() > moment or last_step(checkpoints) > later, 0.0)
        is_now, wait = (in_a_write, behind_one, in_a_write, sometime)[killed % 4]
        assert run([*command, str(folder)], log, is_now, wait) == -signal.SIGKILL, log.read_text()
        killed += 1
        in_write += is_writing(checkpoints)
        print(f"kill {killed}, {in_write} in the write of a checkpoint, at step {last_step(checkpoints)} of {BATCHES}", flush=True)
    done = last_step(checkpoints)
    code = run([*command, str(folder)], log, lambda: last_step(checkpoints) > done, 0.1, signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, log.read_text()
    assert run([*command, str(folder)], log) == 0, log.read_text()
    assert last_bytes(checkpoints, BATCHES) == last_bytes(undisturbed / "checkpoints", BATCHES)
    files = [path.name for path in (undisturbed / "model").iterdir()]
    assert files
    assert all((folder / "model" / name).read_bytes() == (undisturbed / "model" / name).read_bytes() for name in files)
