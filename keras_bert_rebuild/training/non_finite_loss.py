"""The callback that stops at a loss that is not finite and keeps the batch that gave it."""

import math
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.training.counted_callback import CountedCallback, is_finite


class StopOnNonFiniteLoss(CountedCallback):
    """Stop training at the first batch whose loss is not finite, and save what the model was given.

    `problem` then is one sentence with the step and the file, which is also given as a warning. `SaveCheckpoints` beside it, in
    whatever order, writes nothing any more. With `steps_per_execution` Keras tells only of the last batch of an execution: then all
    batches of it are saved.

    The file `non-finite-step-00001234.npz`, or `non-finite-steps-00001231-to-00001234.npz`, has an array for every leaf of a batch,
    `step-00001234/0/1` for the second of the inputs.

    Args:
        folder: where the file goes; it is made when it is needed.
        batch_of: a function of the step, where the batch trained first has number 1, that makes the batch again; None to save none.
        initial_step: batches trained before, that is `Checkpoint.step` of the one that the training goes on from.
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
        """Save the batches; what became of it."""
        if self.batch_of is None:
            return "training stops"
        numbers = f"step-{steps[0]:08d}" if len(steps) == 1 else f"steps-{steps[0]:08d}-to-{steps[-1]:08d}"
        path = self.folder / f"non-finite-{numbers}.npz"
        arrays = {}
        for step in steps:
            for place, leaf in keras.tree.flatten_with_path(self.batch_of(step)):
                if leaf is not None:
                    arrays["/".join([f"step-{step:08d}", *map(str, place)])] = keras.ops.convert_to_numpy(leaf)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(path, lambda file: np.savez(file, **arrays))
        except OSError as error:  # the reason to stop is the same
            return f"training stops; what the model was given could not be written to {path}: {error.strerror or error}"
        return f"training stops; what the model was given is in {path}"


def _named(steps):
    return f"at step {steps[0]}" if len(steps) == 1 else f"at one of the steps {steps[0]} to {steps[-1]}"


def _word(loss):
    return "NaN" if math.isnan(loss) else "infinite"
