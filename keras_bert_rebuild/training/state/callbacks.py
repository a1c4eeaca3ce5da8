"""Callbacks of a long training: counting batches, stopping on a signal on one host or all, or at a loss that is not finite."""

import math
import signal
import threading
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.training.distributed.hosts import gathered


class CountedCallback(keras.callbacks.Callback):
    """Counts the batches that a model was trained on, across epochs, calls of `fit` and restarts.

    Args:
        initial_step: number of batches trained before, by earlier processes.
    """

    def __init__(self, initial_step: int = 0) -> None:
        super().__init__()
        self.step = initial_step
        self.trained = None

    def set_model(self, model):
        super().set_model(model)
        # `self.model` fetches the whole state from the JAX trainer on every access.
        self.trained = model

    def on_train_batch_begin(self, batch, logs=None):
        self._begin = batch

    def count(self, batch: int) -> range:
        """Count the batches of an execution, of which Keras passes the index of the last.

        Returns:
            The steps, as a range: the first trained batch is step 1. One step, or `steps_per_execution`.
        """
        planned = (self.params or {}).get("steps")
        if planned is not None:  # Keras counts the last execution of an epoch in full, even if it had fewer batches
            batch = min(batch, planned - 1)
        before, self.step = self.step, self.step + batch - self._begin + 1
        return range(before + 1, self.step + 1)


def is_finite(logs):
    """Whether the loss in the logs is finite.

    Keras reports the mean over the epoch so far, which stays non-finite after one batch: the first False identifies the batch.
    """
    return math.isfinite((logs or {}).get("loss", 0.0))


class StopOnSignal(keras.callbacks.Callback):
    """Finishes the current batch when a signal comes, then stops; `SaveCheckpoints`, in any order, then writes a checkpoint.

    A second signal has its usual effect. The handlers are installed when training begins and restored when it ends or the first
    signal comes. As a context, it has them installed throughout, across several calls of `fit`, and restores them also after an
    error:

        with StopOnSignal() as stop:
            model.fit(batches, callbacks=[SaveCheckpoints(folder, every_steps=1000), stop])
            if stop.received is None:
                model.evaluate(held_out)

    Python delivers signals only to the main thread: in any other thread this does nothing.

    Args:
        signals: those that stop the training.
    """

    def __init__(self, signals=(signal.SIGTERM, signal.SIGINT)):
        super().__init__()
        self.signals = tuple(signals)
        self.received = None
        """The signal that stopped the training, a `signal.Signals`; None if none came."""
        self._former = {}
        self._is_context = False
        self._trained = None

    def __enter__(self):
        self._is_context, self.received = True, None
        self._install()
        return self

    def __exit__(self, *error):
        self._is_context = False
        self.restore()

    def set_model(self, model):
        super().set_model(model)
        self._trained = model  # `self.model` would fetch the state from the JAX trainer, in the middle of a step

    def on_train_begin(self, logs=None):
        if not self._is_context:
            self.received = None
            self._install()

    def on_train_batch_end(self, batch, logs=None):
        # `fit` resets this when it begins, and another callback may do so.
        if self.received is not None:
            self._trained.stop_training = True

    def on_test_batch_end(self, batch, logs=None):
        if self.received is not None:
            self._trained.stop_evaluating = True

    def on_train_end(self, logs=None):
        if not self._is_context:
            self.restore()

    def restore(self):
        """Restore the former handlers."""
        former, self._former = self._former, {}
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's

    def _install(self):
        self.restore()
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._stop) for number in self.signals}

    def _stop(self, number, frame):
        self.received = signal.Signals(number)
        self.restore()
        if self._trained is not None:
            self._trained.stop_training = self._trained.stop_evaluating = True


class StopTogether(StopOnSignal):
    """`StopOnSignal` for several hosts: after every batch they exchange whether a signal came.

    If a host stopped alone, the others would wait for it within a step. `received` is the same on all hosts.
    """

    _signal_number = 0

    def on_train_batch_end(self, batch, logs=None):
        self._exchange()
        super().on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch, logs=None):
        self._exchange()
        super().on_test_batch_end(batch, logs)

    def _install(self):
        self._signal_number = 0
        super()._install()

    def _exchange(self):
        number = int(gathered([self._signal_number]).max())
        if number:
            self.received = signal.Signals(number)

    def _stop(self, number, frame):
        self._signal_number = number
        self.restore()


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
