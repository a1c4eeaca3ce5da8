"""Progress bars with a rate and the time left."""

import keras
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)


class RateColumn(ProgressColumn):
    """Steps per second."""

    def render(self, task):
        """The rate of a task, as text."""
        rate = task.finished_speed or task.speed
        return "" if rate is None else f"{rate:,.1f} {task.fields.get('unit', 'steps')}/s"


def progress_bar(console):
    """A bar to be used as `with progress_bar(console) as bar`."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def track(console, items, description, unit):
    """Yield the items, and advance a bar with each."""
    with progress_bar(console) as bar:
        task = bar.add_task(description, total=len(items), unit=unit, note="")
        for item in items:
            yield item
            bar.advance(task)


class TextRateColumn(ProgressColumn):
    """Megabytes of text per second since the start."""

    def render(self, task):
        """The rate of a task, as text; its field `text_bytes` is the text so far."""
        seconds = task.finished_time or task.elapsed
        return f"{task.fields['text_bytes'] / seconds / 1e6:,.1f} MB/s" if seconds else ""


class ReadingProgress:
    """A bar for reading a corpus: how much of its files was read, megabytes of text per second, time left.

    Example: `with ReadingProgress(console, "reading", reader.file_bytes) as bar: bar.advance(file_bytes, text_bytes)`.
    """

    def __init__(self, console, description, file_bytes):
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TextRateColumn())
        self.bar = Progress(*columns, TimeRemainingColumn(), console=console)
        self.task = self.bar.add_task(description, total=file_bytes, text_bytes=0)

    def __enter__(self):
        self.bar.start()
        return self

    def __exit__(self, *_):
        self.bar.stop()

    def advance(self, file_bytes, text_bytes):
        """Advance by a number of bytes of the files and of bytes of text."""
        text_bytes += self.bar.tasks[self.task].fields["text_bytes"]
        self.bar.update(self.task, advance=file_bytes, text_bytes=text_bytes)


class TrainingProgress(keras.callbacks.Callback):
    """A bar for `fit` or `evaluate` that shows the running losses."""

    def __init__(self, console, description, total):
        super().__init__()
        self.bar = progress_bar(console)
        self.description = description
        self.total = total

    def on_train_begin(self, logs=None):
        self._start()

    def on_test_begin(self, logs=None):
        self._start()

    def on_train_batch_end(self, batch, logs=None):
        self._advance(logs)

    def on_test_batch_end(self, batch, logs=None):
        self._advance(logs)

    def on_train_end(self, logs=None):
        self.bar.stop()

    def on_test_end(self, logs=None):
        self.bar.stop()

    def _start(self):
        self.bar.start()
        self.task = self.bar.add_task(self.description, total=self.total, unit="steps", note="")

    def _advance(self, logs):
        note = "  ".join(f"{name} {float(logs[name]):.3f}" for name in ("MLM_loss", "NSP_loss") if name in (logs or {}))
        self.bar.update(self.task, advance=1, note=note)
