"""Writing checkpoints while a model trains: at once or in the background, and as a callback."""

import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from keras_bert_rebuild.models.device_logs import as_numbers
from keras_bert_rebuild.training.state.callbacks import CountedCallback, is_finite, passes_multiple
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.train_state import CopiedState, FiniteState


class SpoiledStateError(FloatingPointError):
    """A state contains NaN or infinity."""

    step: int
    """The step of the state, number of trained batches."""


class CheckpointWriter:
    """Writes the state of a model to a folder of checkpoints.

    In the background, the state is copied and a thread writes the copy, as atomically as without a thread: a kill before the final
    rename leaves the previous checkpoint. There is one thread at a time; a save waits for the previous one. Errors in the thread
    are raised by the next call of `save`, `check` or `wait`.

    Args:
        folder: a `CheckpointFolder`.
        background: whether a thread writes. This needs the memory of a `CopiedState` until it is written.
    """

    def __init__(self, folder: CheckpointFolder, background: bool = False) -> None:
        self.folder = folder
        self.background = background
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, step: int, model: Any, facts: Mapping[str, Any] | None = None, score: float | None = None) -> None:
        """Write the state of a model, or copy it and start writing the copy; see `CheckpointFolder.save`.

        Raises:
            OSError: this checkpoint, or the previous one, cannot be written.
            SpoiledStateError: the state of this checkpoint, or of the previous one, contains NaN or infinity.
            ValueError: as for `CheckpointFolder.save`.
        """
        self.wait()
        if not self.background:
            self._write(step, FiniteState(model), facts, score)
            return
        self.folder.claim(step)  # by this thread, which holds the locks of the run
        try:
            state = CopiedState(model)
        except FloatingPointError as error:
            raise _spoiled(step, error) from None
        self._thread = threading.Thread(target=self._run, args=(step, state, facts, score), name="checkpoint-writer")
        self._thread.start()

    def check(self) -> None:
        """Raise the error of a thread that has ended, if any, without waiting."""
        if self._thread is None or not self._thread.is_alive():
            self.wait()

    def wait(self) -> None:
        """Wait until nothing is being written, and raise the error of the thread, if any."""
        self.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def join(self) -> None:
        """Wait until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, *arguments):
        try:
            self._write(*arguments)
        except BaseException as error:  # raised by the next call
            self._error = error

    def _write(self, step, state, facts, score):
        try:
            self.folder.save(step, state, facts, score)
        except FloatingPointError as error:
            raise _spoiled(step, error) from None


def _spoiled(step, error):
    spoiled = SpoiledStateError(*error.args)
    spoiled.step = step
    return spoiled


class SaveCheckpoints(CountedCallback):
    """Saves the whole state of a training to a folder: at regular intervals, when training is stopped, and at its end.

    Weights after a non-finite loss are never saved, nor is a state that contains NaN or infinity: training then stops, and
    `problem` is the reason. The order of callbacks does not matter. The loss is read only when a checkpoint is due and at the end
    of an epoch.

    Args:
        folder: a `CheckpointFolder`, or the path of one.
        every_steps: batches between two checkpoints; with `steps_per_execution`, rounded up to the end of an execution. None to
            not save by steps.
        every_seconds: seconds between the end of a checkpoint and the start of the next; None to not save by time.
        position: a function of the step that returns a value that JSON can encode, for `Checkpoint.facts`; None for an empty
            dictionary.
        score: a function of the step and Keras's logs that returns the score of the current weights, lower is better, or None. It
            is called at every checkpoint, and at the end of every epoch, when the logs include the validation losses; an epoch
            with a score is saved.
        initial_step: number of batches trained before, `Checkpoint.step` of the checkpoint that the training resumes from.
        background: whether a thread writes a copy of the state while training continues, which needs memory for the whole state
            once more (12 bytes per parameter with AdamW). An error of the writer ends the training within the next batches, with
            the same sentence; training does not end before the writer has finished.

    Example: `SaveCheckpoints("run/checkpoints", every_steps=1000, score=lambda step, logs: logs.get("val_loss"))`.

    Raises:
        ValueError: `every_steps` or `every_seconds` is out of range.
    """

    reads_logs_itself = True  # see `DeviceLogs`

    def __init__(
        self,
        folder: CheckpointFolder | str | os.PathLike[str],
        every_steps: int | None = None,
        every_seconds: float | None = None,
        position: Callable[[int], Any] | None = None,
        score: Callable[[int, Any], float | None] | None = None,
        initial_step: int = 0,
        background: bool = False,
    ) -> None:
        super().__init__(initial_step)
        if every_steps is not None and every_steps < 1:
            raise ValueError(f"every_steps must be at least 1 batch, or None; got {every_steps}.")
        if every_seconds is not None and every_seconds <= 0:
            raise ValueError(f"every_seconds must be above 0, or None; got {every_seconds}.")
        self.folder = folder if isinstance(folder, CheckpointFolder) else CheckpointFolder(folder)
        self.writer = CheckpointWriter(self.folder, background)
        self.every_steps, self.every_seconds = every_steps, every_seconds
        self.position = position or (lambda step: {})
        self.score = score or (lambda step, logs: None)
        self.problem = None
        self.saved_step = initial_step
        self._saved_at = time.monotonic()
        self._logs: Any = None

    def on_train_begin(self, logs=None):
        self._saved_at = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        steps = self.count(batch)
        self._logs = logs  # the logs of the last batch, which only a save reads
        self._check_writer()
        if self._is_due(steps) or self.trained.stop_training:
            self._save(logs)

    def on_test_begin(self, logs=None):
        # A signal arrived just after the end of a batch: its sender may not wait for the validation.
        if self.trained.stop_training:
            self._save(logs)

    def on_epoch_end(self, epoch, logs=None):
        if not (is_finite(self._logs) and is_finite(logs)):
            return
        score = self.score(self.step, logs or {})
        is_last = epoch + 1 >= (self.params or {}).get("epochs", math.inf)
        # Any epoch may be the last, and Keras's `use_ema` replaces the weights by the averages before `on_train_end`.
        if score is not None or is_last or self.trained.stop_training or self._is_overwritten():
            was_saved = self.step == self.saved_step
            self._save(logs, score)
            if was_saved and score is not None:
                self._check_writer(wait=True)
                if self.step in self.folder.steps():
                    self.folder.set_score(self.step, score)

    def on_train_end(self, logs=None):
        if not self._is_overwritten():
            self._save(logs)
        self._check_writer(wait=True)

    def _is_due(self, steps):
        if self.every_steps is not None and passes_multiple(steps, self.every_steps):
            return True
        return self.every_seconds is not None and time.monotonic() - self._saved_at >= self.every_seconds

    def _is_overwritten(self):
        optimizer = getattr(self.trained.optimizer, "inner_optimizer", self.trained.optimizer)
        return getattr(optimizer, "use_ema", False)

    def _save(self, logs, score=None):
        if self.problem is not None or self.step == self.saved_step or not is_finite(self._logs):
            return
        if score is None:
            score = self.score(self.step, as_numbers(logs))
        try:
            self.writer.save(self.step, self.model, self.position(self.step), score)
        except SpoiledStateError as error:
            self._stop(error)
            return
        self.saved_step, self._saved_at = self.step, time.monotonic()

    def _check_writer(self, wait=False):
        try:
            self.writer.wait() if wait else self.writer.check()
        except SpoiledStateError as error:
            self._stop(error)

    def _stop(self, error):
        self.problem = f"after step {error.step} {error}; no checkpoint of it was written and training stops."
        self.trained.stop_training = True
        warnings.warn(self.problem, stacklevel=3)
