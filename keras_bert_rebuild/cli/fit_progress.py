"""A bar for `fit` and `evaluate`: what is compiled before the first step, then the steps with their losses."""

import time

import keras
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

# The losses that the bar shows.
SHOWN = ("MLM_loss", "NSP_loss")
# A log file gets lines instead of a bar that moves: seconds between them.
EVERY_SECONDS = 30
# Before the first step nothing can be counted; the seconds run.
FIRST = "compiling the step"


class FitProgress(keras.callbacks.Callback):
    """A bar with the running losses, once the first step has ended; until then how long that takes.

    Args:
        console: where to show it.
        description: what is done, in a word.
        total: the number of steps.

    Attributes:
        first: seconds of the first step, which compiles.
        seconds: those of all others.
    """

    def __init__(self, console, description, total):
        super().__init__()
        self.console = console
        self.description = description
        self.total = total
        self.first = self.seconds = 0.0

    def on_train_begin(self, logs=None):
        self._start()

    def on_test_begin(self, logs=None):
        self._start()

    def on_train_batch_end(self, batch, logs=None):
        self._advance(logs)

    def on_test_batch_end(self, batch, logs=None):
        self._advance(logs)

    def on_train_end(self, logs=None):
        self._stop()

    def on_test_end(self, logs=None):
        self._stop()

    def _start(self):
        self._started = self._printed = time.perf_counter()
        self._done = 0
        self._show(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), description=FIRST, total=None)

    def _show(self, *columns, description, total):
        self.bar = Progress(*columns, console=self.console, transient=total is None)
        self._task = self.bar.add_task(description, total=total, note="")
        self.bar.start()

    def _advance(self, logs):
        self._done += 1
        if self._done == 1:
            self.first = time.perf_counter() - self._started
            self._started = time.perf_counter()
            self.bar.stop()
            times = (TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), *times)
            self._show(*columns, description=self.description, total=self.total)
        shown = [name for name in SHOWN if name in (logs or {})] or ["loss"]
        note = "  ".join(f"{name.removesuffix('_loss')} {float(logs[name]):.2f}" for name in shown if name in (logs or {}))
        self.bar.update(self._task, completed=self._done, note=note)
        if not self.console.is_terminal and time.perf_counter() - self._printed > EVERY_SECONDS:
            self.console.print(f"  {self.description}: {self._done:,} of {self.total:,} steps  {note}", highlight=False)
            self._printed = time.perf_counter()

    def _stop(self):
        self.seconds = time.perf_counter() - self._started
        self.bar.stop()
