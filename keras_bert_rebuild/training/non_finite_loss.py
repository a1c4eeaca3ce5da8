"""The callback that stops at a loss that is not finite and saves its batch."""

import math
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.training.counted_callback import CountedCallback, is_finite


class StopOnNonFiniteLoss(CountedCallback):
    """Stops training at the first batch whose loss is not finite, and saves that batch.

    `problem` is then a sentence with the step and the file, which is also a warning. Another callback `SaveCheckpoints`, in any
    order, stops writing. With `steps_per_execution` Keras reports only the last batch of an execution: then all of its batches are
    saved.

    The file `non-finite-step-00001234.npz`, or `non-finite-steps-00001231-to-00001234.npz`, has an array for every leaf of a batch,
    `step-00001234/0/1` for the second of the inputs.

    Args:
        folder: the folder of the file; it is created when needed.
        batch_of: a function of the step, 1 for the first trained batch, that returns its batch; None to save none.
        initial_step: number of batches trained before, `Checkpoint.step` of the checkpoint that the training resumes from.
    """

    def __init__(self, folder, batch_of=None, initial_step=0):
        super().__init__(initial_step)
        self.folder = Path(folder)
        self.batch_of = batch_of
        self.problem = None

    def on_train_batch_end(self, batch, logs=None):
        steps = self.count(batch)
        if is_finite(logs) or self.problem is not None:
            return
        self.trained.stop_training = True
        self.problem = f"the loss became {_word(logs['loss'])} {_named(steps)}: {self._save(steps)}."
        warnings.warn(self.problem, stacklevel=2)

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
