"""Callbacks of a long training: counting batches, stopping on a signal, on one host or all, and at a loss that is not finite."""

import math
import signal
import threading
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.training.distributed.hosts import gathered

# Batches between two reads from the device, or exchanges with other hosts; each waits for all previous steps.
LOOK_STEPS = 32


class CountedCallback(keras.callbacks.Callback):
    """Counts the batches that a model was trained on, across epochs, calls of `fit` and restarts.

    Args:
        initial_step: number of batches trained by earlier processes.
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
        """Count the batches of an execution; Keras passes the index of the last one.

        Returns:
            A range of steps, counted from 1 for the first trained batch: one step, or `steps_per_execution`.
        """
        planned = (self.params or {}).get("steps")
        if planned is not None:  # Keras counts the last execution of an epoch in full, even if it had fewer batches
            batch = min(batch, planned - 1)
        before, self.step = self.step, self.step + batch - self._begin + 1
        return range(before + 1, self.step + 1)


def is_finite(logs):
    """Whether the loss in the logs is finite; waits for the device if the loss is there. True without logs."""
    return math.isfinite(float((logs or {}).get("loss", 0.0)))


def passes_multiple(steps, every):
    """Whether a range of steps contains a multiple of a number."""
    return steps[-1] // every > (steps[0] - 1) // every


def at_least_one(every_steps):
    """The number of batches between two checks.

    Raises:
        ValueError: it is less than 1.
    """
    if every_steps < 1:
        raise ValueError(f"every_steps must be at least 1 batch; got {every_steps}.")
    return every_steps


class StopOnSignal(keras.callbacks.Callback):
    """Stops training on a signal, after the current batch; `SaveCheckpoints`, in any order, then writes a checkpoint.

    A second signal has its usual effect. The handlers are installed when training begins, and restored when it ends or the first
    signal arrives. Used as a context, they stay installed across several calls of `fit`, and are restored even after an error:

        with StopOnSignal() as stop:
            model.fit(batches, callbacks=[SaveCheckpoints(folder, every_steps=1000), stop])
            if stop.received is None:
                model.evaluate(held_out)

    Python delivers signals only to the main thread: in any other thread this does nothing.

    Args:
        signals: those that stop the training.
    """

    reads_logs_itself = True  # none of them; see `DeviceLogs`

    def __init__(self, signals=(signal.SIGTERM, signal.SIGINT)):
        super().__init__()
        self.signals = tuple(signals)
        self.received = None
        """The signal that stopped the training, a `signal.Signals`; None without one."""
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
        # `fit` resets this at its start, and other callbacks may reset it.
        if self.received is not None:
            self._trained.stop_training = True

    def on_test_batch_end(self, batch, logs=None):
        if self.received is not None:
            self._trained.stop_evaluating = True

    def on_train_end(self, logs=None):
        if not self._is_context:
            self.restore()

    def restore(self):
        """Restore the previous handlers."""
        former, self._former = self._former, {}
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None for a handler that Python did not install

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
    """`StopOnSignal` for several hosts, which exchange every few batches and at the end of an epoch whether a signal arrived.

    If one host stopped alone, the others would wait for it within a step. `received` is the same on all hosts. Exchanges are rare,
    since each waits for all previous steps.

    Args:
        signals: the signals that stop the training.
        every_steps: batches, or executions of several, between two exchanges; the same number on all hosts.

    Raises:
        ValueError: `every_steps` is less than 1.
    """

    _signal_number = 0

    def __init__(self, signals=(signal.SIGTERM, signal.SIGINT), every_steps=LOOK_STEPS):
        super().__init__(signals)
        self.every_steps = at_least_one(every_steps)
        self._batches = 0  # since the last exchange

    def on_train_batch_end(self, batch, logs=None):
        self._count()
        super().on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch, logs=None):
        self._count()
        super().on_test_batch_end(batch, logs)

    def on_epoch_end(self, epoch, logs=None):
        if self.received is None:  # otherwise all hosts know already
            self._exchange()
        super().on_train_batch_end(epoch, logs)

    def _install(self):
        self._signal_number = self._batches = 0
        super()._install()

    def _count(self):
        self._batches += 1
        if self._batches >= self.every_steps:
            self._exchange()

    def _exchange(self):
        self._batches = 0
        number = int(gathered([self._signal_number]).max())
        if number:
            self.received = signal.Signals(number)

    def _stop(self, number, frame):
        self._signal_number = number
        self.restore()


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
