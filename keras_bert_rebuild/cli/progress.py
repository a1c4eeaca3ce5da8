"""Progress bars with a rate and the time left, also for trainings, fed with the rows of their curves."""

import time

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from keras_bert_rebuild.files.printable import printable

# Seconds before a rate is shown: that of two texts says nothing.
SHORTEST = 1.0


class RateColumn(ProgressColumn):
    """Steps per second."""

    def render(self, task):
        """The rate of a task, as text."""
        rate = task.finished_speed or task.speed
        known = rate is not None and (task.finished_time or task.elapsed or 0) >= SHORTEST
        return "" if not known else f"{rate:,.1f} {task.fields.get('unit', 'steps')}/s"


def progress_bar(console):
    """A bar to be used as `with progress_bar(console) as bar`."""
    return Progress(*_columns(), console=console)


def _columns():
    return (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )


def track(console, items, description, unit):
    """Yield the items, and advance a bar with each."""
    with progress_bar(console) as bar:
        task = bar.add_task(description, total=len(items), unit=unit, note="")
        for item in items:
            yield item
            bar.advance(task)


class IndexingBar(Progress):
    """A bar for `Index.build` and `mine`, which are called with it as their `progress`: a row for each of their stages."""

    def __init__(self, console):
        super().__init__(*_columns(), console=console)
        self._stages = {}

    def __enter__(self):
        return self  # nothing to show before the first text: there may be only an error

    def __exit__(self, *error):
        if self.live.is_started:
            super().__exit__(*error)

    def __call__(self, stage, done, total=None):
        """Advance a stage by a number of documents."""
        self.start()
        if stage not in self._stages:
            for task in self.tasks:  # a stage of unknown length has ended
                self.update(task.id, total=task.completed)
            self._stages[stage] = self.add_task(stage, total=total, unit="texts", note="")
        self.advance(self._stages[stage], done)


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


# Before the columns of probes, which are shown after those below.
PROBE = "probe_"
# Column of the curve, how it is shown.
PRETRAINING_SHOWN = (
    ("mlm_loss", "MLM {:.3f}"),
    ("mlm_perplexity", "ppl {:.4g}"),
    ("mlm_accuracy", "acc {:.1%}"),
    ("pair_accuracy", "pair {:.0%}"),
    ("rtd_loss", "RTD {:.3f}"),
    ("rtd_accuracy", "acc {:.1%}"),
    ("held_out_mlm_loss", "held out {:.3f}"),
    ("tokens_per_second", "{:,.0f} tok/s"),
    ("flop_utilisation", "MFU {:.0%}"),
)
# A log file gets lines instead of a bar that moves: seconds between them.
EVERY_SECONDS = 30


class TrainingBar(Progress):
    """Steps done, the time taken and left, and below them the values of the last rows.

    Example: `with TrainingBar(console, total_steps) as bar: pretrain(store, output, report=bar)`.
    """

    shown: tuple = PRETRAINING_SHOWN

    def __init__(self, console, total):
        times = (TextColumn("steps"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        self._note = ""
        super().__init__(BarColumn(), MofNCompleteColumn(), *times, console=console, speed_estimate_period=3600)
        self._task = self.add_task("pretraining", total=total)
        self._known = None
        self._printed = time.monotonic()

    def __enter__(self):
        return self  # nothing to show before the first row: there may be only an error

    def __exit__(self, *error):
        if self.live.is_started:
            super().__exit__(*error)

    def get_renderables(self):
        yield from super().get_renderables()
        if self._note:
            yield Text(self._note, overflow="ellipsis", no_wrap=True)

    def __call__(self, row):
        """Show a row of the curve; the first has only the step where the run starts, those of a run in minutes also its `steps`."""
        self.start()
        if "steps" in row:
            self.update(self._task, total=row["steps"])
        if self._known is None:
            self.reset(self._task, completed=row["step"])
            self._known = {}
        self._known.update({name: value for name, value in row.items() if value is not None})
        scores = [
            f"{name.removeprefix(PROBE).replace('_', ' ')} {value:.3f}" for name, value in self._known.items() if PROBE in name
        ]
        known = [shape.format(self._known[name]) for name, shape in self.shown if name in self._known]
        self._note = "  ".join([*known, *scores])
        self.update(self._task, completed=row["step"])
        if not self.console.is_terminal and time.monotonic() - self._printed > EVERY_SECONDS:
            total = self.tasks[0].total
            line = Text(f"step {row['step']:,}{'' if total is None else f' of {total:,}'}  {self._note}")
            self.console.print(line, soft_wrap=True)
            self._printed = time.monotonic()


# Columns of the curve, how they are shown.
FINETUNING_SHOWN = (
    ("epoch", "epoch {:.1f}"),
    ("loss", "loss {:.4f}"),
    ("dev_accuracy", "accuracy {:.4f}"),
    ("dev_micro_f1", "micro F1 {:.4f}"),
    ("dev_f1", "F1 {:.4f}"),
    ("dev_exact_match", "exact {:.4f}"),
    ("dev_spearman", "Spearman {:.4f}"),
    ("evaluated", "evaluating {:.0%}"),
    ("examples_per_second", "{:,.0f} ex/s"),
)


class FinetuneBar(TrainingBar):
    """Steps done, the time taken and left, and below them loss and scores.

    Example: `with FinetuneBar(console) as bar: finetune("classification", model, train, dev, output, report=bar)`.
    """

    shown = FINETUNING_SHOWN

    def __init__(self, console):
        super().__init__(console, None)

    def __call__(self, row):
        """Show a row of the curve; the first has the number of steps."""
        if "steps" in row:
            self.update(self._task, total=row["steps"])
        for name in ("head", "scores"):
            if name in row:
                self.console.print(Text(f"{name:<8} {printable(row[name])}"), soft_wrap=True)
        if self._known is not None and "evaluated" not in row:
            self._known.pop("evaluated", None)
        super().__call__(row)
