"""The callback that stops at a loss that is not finite."""

import math
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.training.state.callbacks import LOOK_STEPS, CountedCallback, at_least_one, passes_multiple


class StopOnNonFiniteLoss(CountedCallback):
    """Stops training after a batch whose loss is not finite, and saves that batch.

    The losses of all batches are retained as scalars on the device and checked together: the host waits for the device only every
    `every_steps` batches and at the end of an epoch. Up to `every_steps` - 1 more batches may therefore be trained on, but the
    reported step is always the first whose loss was not finite. (Keras's loss is the mean over the epoch so far, which stays
    non-finite after one such batch.)

    `problem` is then a sentence with the step and the file, which is also issued as a warning. A `SaveCheckpoints` callback, in any
    order, stops writing. With `steps_per_execution`, Keras reports only the last batch of an execution: then all its batches are
    saved.

    The file `non-finite-step-00001234.npz`, or `non-finite-steps-00001231-to-00001234.npz`, has an array for every leaf of a batch,
    `step-00001234/0/1` for the second of the inputs.

    Args:
        folder: the folder for the file; it is created if needed.
        batch_of: a function that returns the batch of a step, counted from 1; None to save no batches.
        initial_step: number of batches trained before, `Checkpoint.step` of the checkpoint that the training resumes from.
        every_steps: losses are checked after multiples of this number of batches; 1 for every batch.

    Raises:
        ValueError: `every_steps` is less than 1.
    """

    reads_logs_itself = True  # see `DeviceLogs`

    def __init__(self, folder, batch_of=None, initial_step=0, every_steps=LOOK_STEPS):
        super().__init__(initial_step)
        self.folder = Path(folder)
        self.batch_of = batch_of
        self.every_steps = at_least_one(every_steps)
        self.problem = None
        self._losses = []  # pairs of the steps of an execution and their loss, since the last check

    def on_train_batch_end(self, batch, logs=None):
        steps = self.count(batch)
        if self.problem is not None:
            return
        self._losses.append((steps, (logs or {}).get("loss", 0.0)))
        if passes_multiple(steps, self.every_steps):
            self._look()

    def on_test_begin(self, logs=None):
        self._look()  # before the validation, which such weights would waste

    def on_epoch_end(self, epoch, logs=None):
        self._look()

    def _look(self):
        """Stop if a loss since the last check is not finite."""
        losses, self._losses = self._losses, []
        for steps, loss in losses:
            loss = float(loss)
            if not math.isfinite(loss):
                self.trained.stop_training = self.trained.stop_evaluating = True
                self.problem = f"the loss became {_word(loss)} {_named(steps)}: {self._save(steps)}."
                warnings.warn(self.problem, stacklevel=3)
                return

    def _save(self, steps):
        """Save the batches and describe the result."""
        if self.batch_of is None:
            return "training stops"
        numbers = f"step-{steps[0]:08d}" if len(steps) == 1 else f"steps-{steps[0]:08d}-to-{steps[-1]:08d}"
        path = self.folder / f"non-finite-{numbers}.npz"
        arrays = {}
        for step in steps:
            for leaf_path, leaf in keras.tree.flatten_with_path(self.batch_of(step)):
                if leaf is not None:
                    arrays["/".join([f"step-{step:08d}", *map(str, leaf_path)])] = keras.ops.convert_to_numpy(leaf)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(path, lambda file: np.savez(file, **arrays))
        except OSError as error:  # training stops nevertheless
            return f"training stops; the batch could not be written to {path}: {error.strerror or error}"
        return f"training stops; the batch is in {path}"


def _named(steps):
    return f"at step {steps[0]}" if len(steps) == 1 else f"at one of the steps {steps[0]} to {steps[-1]}"


def _word(loss):
    return "NaN" if math.isnan(loss) else "infinite"
