"""What a run needs only later, computed by a thread while it trains."""

import threading
import time
from collections.abc import Callable
from typing import Any

import keras


class Background(keras.callbacks.Callback):
    """The value of a function that a thread computes, so that a start does not take longer for a larger corpus.

    As a callback of `fit`, it ends a training whose function raised an error.

    Args:
        function: called without arguments; its thread ends with the process.
    """

    reads_logs_itself = True  # none of them; see `DeviceLogs`

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self.waited = 0.0
        """Seconds that the last call of `value` waited."""
        self._function, self._value = function, None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._thread.start()

    def is_done(self, seconds: float = 0.0) -> bool:
        """Whether the value is there, after waiting for it at most that many seconds.

        Raises:
            BaseException: the function did.
        """
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def value(self, goes_on: Callable[[], bool] = lambda: True) -> Any:
        """Wait for the value; None as soon as `goes_on`, which is asked every second, is False.

        Raises:
            BaseException: the function did.
        """
        began = time.monotonic()
        while not (done := self.is_done(1.0)) and goes_on():
            continue
        self.waited = time.monotonic() - began
        return self._value if done else None

    def on_train_begin(self, logs=None):
        self.is_done()

    def _run(self):
        try:
            self._value = self._function()
        except BaseException as error:  # raised where the value is needed
            self._error = error
