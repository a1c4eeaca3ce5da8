"""A training resumed from a checkpoint, also one killed at random moments, ends with the bits of one that was never stopped."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import yaml
from helpers import killed_runs
from helpers.hostile_inputs import EXHAUSTIVE, only_exhaustive
from helpers.small import compiled, small_batch, small_model
from helpers.small_corpus import SPECIAL
from helpers.tiny_training import NumberedBatches

from keras_bert_rebuild.cli.main import main as keras_bert
from keras_bert_rebuild.kernels.traits import draws_dropout_from_the_process
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW
from keras_bert_rebuild.training.optimizers.rate_schedules import WarmupLinearDecay
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds
from keras_bert_rebuild.training.state.train_state import TrainState, write_state

pytestmark = pytest.mark.backend

# On TensorFlow compiling a step takes minutes under load; the killed runs below compile a smaller model.
COMPILED = {
    "tensorflow": [False, True] if EXHAUSTIVE else [False],
    "jax": [True],
    "torch": [False],
}


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("jit_compile", COMPILED[keras.backend.backend()])
def test_three_steps_and_three_more_are_six_steps(tmp_path, jit_compile):
    whole = train(tmp_path / "whole", 6, every_steps=3, jit_compile=jit_compile).newest()
    shutil.copytree(tmp_path / "whole" / "step-00000003", tmp_path / "parts" / "step-00000003")
    keras.utils.clear_session()
    compiled(small_model(dropout_rate=0.1), optimizer=keras.optimizers.Adam())  # automatic names have other numbers now
    parts = train(tmp_path / "parts", 6, jit_compile=jit_compile, workers=2).newest()
    assert parts.step == whole.step == 6
    assert parts.arrays().names == whole.arrays().names
    different = [n for n in whole.arrays().names if whole.arrays().read(n).tobytes() != parts.arrays().read(n).tobytes()]
    assert different == []
    assert parts.sha256 == whole.sha256


def test_the_run_of_these_tests_has_all_kinds_of_state():
    kinds = {name.rsplit("/", 1)[1] for name in TrainState(make_model()).names if not name.startswith("weights/")}
    # The rate is a function of the iteration.
    assert kinds == {"momentum", "velocity", "average_offset", "gradient_accumulator", "iteration", "seed_generator"}


def losses_of_steps(seed, steps, initial_step=0):
    """The loss of every step of a model that learns nothing: a fingerprint of the step's dropout."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    data = np.ones((4, 64), "float32"), np.ones((4, 1), "float32")
    seeds = TorchStepSeeds(seed, initial_step)
    return model.fit(*data, batch_size=4, epochs=steps, verbose=0, callbacks=[seeds]).history["loss"]


def test_every_step_has_its_own_dropout():
    losses = losses_of_steps(seed=3, steps=6)
    assert len(set(losses)) == 6
    assert losses_of_steps(seed=3, steps=6) == losses
    if draws_dropout_from_the_process():  # elsewhere it is in the state of the layer
        assert losses_of_steps(seed=3, steps=2, initial_step=4) == losses[4:]
        assert not set(losses_of_steps(seed=4, steps=6)) & set(losses)


kills_with_signals = pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")
SCRIPT = Path(__file__).parents[2] / "helpers" / "killed_runs.py"
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
}
BATCHES = SETTINGS["steps"] * SETTINGS["gradient_accumulation_steps"]


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


@kills_with_signals
@pytest.mark.slow(torch=True)
def test_a_training_killed_three_times_ends_with_the_same_bits(tmp_path):
    kills, steps, choice = 3, 90, new_random()
    killed_runs.train(tmp_path / "undisturbed", steps)
    folder, log, in_write = tmp_path / "killed", tmp_path / "log", 0
    for kill in range(kills):
        done = last_step(folder)
        command = [str(SCRIPT), "training", str(folder), str(steps)]
        if kill % 2 == 0:  # it kills itself
            death = (done + killed_runs.EVERY, killed_runs.BEFORE if kill == 2 else choice.randrange(killed_runs.SYNCS))
            code = run([*command, *map(str, death)], log)
        else:
            code = run(command, log, lambda done=done: last_step(folder) > done, choice.uniform(0, 0.1))
        assert code == -signal.SIGKILL, log.read_text()
        in_write += is_writing(folder)
    assert in_write >= kills / 4
    killed_runs.train(folder, steps)
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


@kills_with_signals
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


def make_batch(number):
    return small_batch(np.random.default_rng([number, 5]))


def make_model(seed=7, **kwargs):
    """Dropout in both places; averages, accumulated gradients and a schedule in the optimizer."""
    keras.utils.set_random_seed(seed)
    rate = WarmupLinearDecay(1e-2, 2, 50)
    optimizer = AdamW(rate, ema_momentum=0.9, global_clipnorm=1.0, gradient_accumulation_steps=2)
    model = small_model(dropout_rate=0.1, attention_probs_dropout_prob=0.1, transformer_num=1)
    return compiled(model, optimizer=optimizer, max_predictions=4, **kwargs)


def train(folder, steps, every_steps=None, callbacks=(), workers=0, **kwargs):
    """Train to a step, from the newest checkpoint if there is one; the folder."""
    folder = folder if isinstance(folder, CheckpointFolder) else CheckpointFolder(folder)
    newest = folder.newest()
    done = newest.step if newest else 0
    model = make_model(seed=7 if done == 0 else 1000 + done, **kwargs)  # its initial state must not matter any more
    if newest:
        write_state(model, newest.arrays())
    if done < steps:
        save = SaveCheckpoints(folder, every_steps, initial_step=done)
        seeds = TorchStepSeeds(seed=3, initial_step=done)
        batches = NumberedBatches(make_batch, done, steps, workers=workers)
        model.fit(batches, shuffle=False, verbose=0, callbacks=[save, seeds, *callbacks])
    return folder
