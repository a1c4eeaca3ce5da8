"""Runs in a process of their own that stop or kill themselves.

`python killed_runs.py host DEATH SIGNAL OPTIONS...` is `keras-bert pretrain` on a small corpus as one of two hosts. It kills itself
before it makes batch number DEATH, or sends itself SIGNAL there; -1 means never.

`python killed_runs.py training FOLDER STEPS [STEP CALL]` resumes a training from its last checkpoint and ends at STEPS. A thread
writes its checkpoints beside the training. With STEP and CALL it kills itself while it writes that checkpoint: in the middle of the
arrays when CALL is 0, after the state was copied and before anything is written when CALL is -1, otherwise instead of the first,
second, ... call of `os.fsync`.

`python killed_runs.py verb lock|write|never VERB ...` is `keras-bert`, which stops itself when its output is locked, or kills
itself when it first makes a file durable.
"""

import os
import signal
import sys
import time
from dataclasses import replace

import keras
import numpy as np

from helpers.small_corpus import small_corpus
from helpers.tiny_training import NumberedBatches
from keras_bert_rebuild.cli import demo, demo_texts
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.files import locked
from keras_bert_rebuild.recipes.pretraining import pretrain as recipe
from keras_bert_rebuild.recipes.pretraining import step_spans
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW
from keras_bert_rebuild.training.state import train_state
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
STEPS = 20
SETTINGS = {
    "model": TINY,
    "steps": STEPS,
    "batch_size": 8,
    "seq_len": 16,
    "learning_rate": 1e-3,
    "warmup_steps": 2,
    "held_out": 0,
    "log_steps": 1,
    "save_steps": 5,
    "workers": 2,
    "jit_compile": True,
}


def corpus():
    return small_corpus(documents=10, passages=4, longest=10)


def die_at(number, kind):
    make = step_spans.SpanOfBatches.__getitem__

    def dying(self, index):
        if self._start + index == number:
            os.kill(os.getpid(), kind)
        return make(self, index)

    step_spans.SpanOfBatches.__getitem__ = dying


def run(options):
    """`keras-bert pretrain` on the small corpus."""
    recipe.TokenStore = lambda path: corpus()
    return main(["pretrain", "the small corpus", *options])


BEFORE = -1  # the call between copy and write
EVERY = 2  # batches from checkpoint to checkpoint
SYNCS = 5  # of a checkpoint: arrays, metadata, the names in its folder, twice, and its own; before the last it has its name


def make_batch(number):
    rng = np.random.default_rng(number)
    return rng.normal(size=(4, 8)).astype("float32"), rng.normal(size=(4, 1)).astype("float32")


def make_model(seed):
    keras.utils.set_random_seed(seed)
    stack = [keras.Input((8,)), keras.layers.Dense(16, name="one"), keras.layers.Dropout(0.1, name="dropped")]
    model = keras.Sequential([*stack, keras.layers.Dense(1, name="two")], name="tiny")
    optimizer = AdamW(1e-2, ema_momentum=0.9, gradient_accumulation_steps=2)
    model.compile(optimizer, "mse")
    return model


class Slow(keras.callbacks.Callback):
    """Leaves time for a kill between two checkpoints."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


def die_in_write(save, step, call):
    """Kill this process while it writes a checkpoint, at that call."""
    left, began, partial = [call], [], save.folder.path / f".step-{step:08d}.writing"
    read, fsync, write = train_state.TrainState.read, os.fsync, CheckpointFolder.save

    def dying_read(self, name):
        if partial.exists() and call == 0 and name.endswith("two/kernel"):
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, name)

    def dying_fsync(descriptor):
        began.extend([True] * partial.exists())
        left[0] -= bool(began)
        if left[0] == 0 and call:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    def dying_save(self, saved, *arguments):
        if saved == step and call == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(self, saved, *arguments)

    train_state.TrainState.read, os.fsync, CheckpointFolder.save = dying_read, dying_fsync, dying_save


def train(folder, steps, *death):
    """Resume from the last checkpoint of a folder, and end at a step; see above for the death."""
    checkpoints = CheckpointFolder(folder, keep=2)
    newest = checkpoints.newest()
    done = newest.step if newest else 0
    model = make_model(seed=1 + done)  # the initial state of a resumed run must not matter
    if newest:
        train_state.write_state(model, newest.arrays())
    save = SaveCheckpoints(checkpoints, every_steps=EVERY, initial_step=done, background=True)
    if death:
        die_in_write(save, *map(int, death))
    if done < int(steps):
        batches = NumberedBatches(make_batch, done, int(steps))
        model.fit(batches, shuffle=False, verbose=0, callbacks=[save, TorchStepSeeds(1, done), Slow()])


SMALL = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}


def stop_when_locked():
    write_holder = locked._write_holder

    def stopping(file):
        locked._write_holder = write_holder
        write_holder(file)
        os.kill(os.getpid(), signal.SIGSTOP)

    locked._write_holder = stopping


def die_when_written():
    def dying(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = os.replace = os.rename = os.link = dying


def small_demo():
    """Shorten the demo: what is trained does not matter."""
    article = {"transformer_num": 1, "embed_dim": 24, "feed_forward_dim": 48, "token_num": 300}
    demo.ARTICLE_MODEL = {**demo.ARTICLE_MODEL, **article}
    shortened = {"sizes": SMALL, "evaluation_steps": 2, "compiled": ("jax",)}
    demo.WORLD, demo.DOCSTRINGS = replace(demo.WORLD, steps=2, **shortened), replace(demo.DOCSTRINGS, **shortened)
    demo_texts.VOCAB_SIZE = 300


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    if kind == "host":
        death, number, *options = arguments
        die_at(int(death), signal.Signals[number])
        sys.exit(run(options))
    if kind == "training":
        train(*arguments)
    if kind == "verb":
        small_demo()
        {"lock": stop_when_locked, "write": die_when_written, "never": lambda: None}[arguments[0]]()
        sys.exit(main(arguments[1:]))
