"""A training in a separate process that can be killed: `python killed_run.py FOLDER STEPS [STEP CALL]`.

It resumes from the last checkpoint and ends at STEPS. A thread writes its checkpoints beside the training. With STEP and CALL it
kills itself while it writes that checkpoint: in the middle of the arrays when CALL is 0, after the state was copied and before
anything is written when CALL is -1, otherwise instead of the first, second, ... call of `os.fsync`.
"""

import os
import signal
import sys
import time

import keras
import numpy as np

from helpers.numbered_batches import NumberedBatches
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW
from keras_bert_rebuild.training.state import train_state
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds

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


def main(folder, steps, *death):
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


if __name__ == "__main__":
    main(*sys.argv[1:])
