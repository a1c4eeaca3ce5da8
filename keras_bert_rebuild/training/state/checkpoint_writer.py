"""Writes checkpoints synchronously, or in a background thread from a copy of the state."""

import threading
from collections.abc import Mapping
from typing import Any

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
