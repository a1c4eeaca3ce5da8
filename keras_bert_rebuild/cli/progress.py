"""What a verb shows while it works: the first sign of life, counts, and a bar with a rate, the time left and numbers."""

import sys
import time

import keras
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.kernels.traits import name_of_backend, runs_on_accelerator

# Seconds of work before a rate is shown: that of five texts says nothing.
SHORTEST = 1.0
# Seconds between two states of a bar: showing one takes longer than a GPU needs for a text.
STATE_SECONDS = 0.05
# A log file gets lines instead of a bar that moves: seconds between them.
EVERY_SECONDS = 30


def begin(doing, what=""):
    """Print on a terminal what is begun, with the backend and its device: the first sign of life of a verb.

    Args:
        doing: a word such as "loading".
        what: a path.
    """
    if not sys.stderr.isatty():
        return
    device = "an accelerator" if runs_on_accelerator() else "the processor"
    print(f"{doing:<8} {printable(what)} ({name_of_backend()} on {device})", file=sys.stderr, flush=True)


def counted(number, thing):
    """A number with its thing, such as "1 file" and "1,200 files"."""
    return f"{number:,} {thing if number == 1 else _plural(thing)}"


def _plural(thing):
    return f"{thing[:-1]}ies" if thing.endswith("y") and thing[-2] not in "aeiou" else f"{thing}s"


def rate(amount, seconds, unit):
    """A rate such as "12.3 steps/s", without decimals above 100; empty for less than a second of work.

    Args:
        amount: what was done; a number of bytes is shown in megabytes.
        seconds: how long it took.
        unit: what is counted.
    """
    if seconds < SHORTEST or amount <= 0:
        return ""
    number, unit = (amount / 1e6, "MB") if unit == "bytes" else (amount, unit)
    number /= seconds
    return f"{number:,.{0 if number >= 99.95 else 1}f} {unit}/s"


class AmountColumn(ProgressColumn):
    """How much is done of how much, and its rate."""

    def render(self, task):
        """The amount of a task in its field `unit`, as text."""
        unit = task.fields["unit"]
        if task.total is None and not task.completed:
            return Text()
        total = "?" if task.total is None else int(task.total)
        amount = DownloadColumn().render(task) if unit == "bytes" else f"{int(task.completed)}/{total} {unit}"
        return Text(f"{amount} {task.fields['rate']}".rstrip())


class TimeColumn(ProgressColumn):
    """The time left; that taken so far where the end is not known, and in the end."""

    def render(self, task):
        """The time of a task, as text."""
        column = TimeElapsedColumn() if task.total is None or task.finished else TimeRemainingColumn()
        return column.render(task)


class Bar(Progress):
    """A row for each of the stages of some work, and below them a line of numbers.

    Nothing is shown before the first call, since there may be only an error. A log file gets the last state and, where there are
    numbers, a line at intervals.

    Example: `with Bar(console, "texts") as bar: bar("embedding", 1, total=count)`.

    Args:
        console: where to show it.
        unit: what is counted.
    """

    # The line of a log file.
    line = "{stage}: {done:,}{of} {unit}  {note}"

    def __init__(self, console, unit="texts"):
        columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), AmountColumn(), TimeColumn()
        self.unit = unit
        self._note = ""  # which the next line asks for
        super().__init__(*columns, console=console, speed_estimate_period=3600)
        self._stages = {}
        self._begun = {}  # of every stage the time and the amount when something was first done
        self._last = None  # the stage that was shown last, and its total
        self._updated, self._waiting = 0.0, 0  # when, and by how much it advanced since then
        self._printed = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.live.is_started:
            self._show_waiting()
            super().__exit__(*error)

    def get_renderables(self):
        yield from super().get_renderables()
        if self._note:
            yield Text(self._note, overflow="ellipsis", no_wrap=True)

    def __call__(self, stage, advance=0, total=None, *, done=None, note=None):
        """Advance a stage.

        Args:
            stage: what is done, in a word.
            advance: how much was done since the last call.
            total: how much there is in all, once that is known.
            done: how much was done in all, instead of `advance`.
            note: the line of numbers, if it changes.
        """
        if (stage, total) == self._last and done is None and note is None:
            self._waiting += advance
            if self.get_time() - self._updated >= STATE_SECONDS:
                self._show_waiting()
            return
        self._show_waiting()
        self._last = stage, total
        self._show(stage, advance, total, done, note)

    def _show_waiting(self):
        if self._waiting:
            advance, self._waiting = self._waiting, 0
            self._show(self._last[0], advance, self._last[1])

    def _show(self, stage, advance, total, done=None, note=None):
        self.start()
        if stage not in self._stages:
            for task in self.tasks:  # also of unknown length: it has ended
                self.update(task.id, total=task.completed)
            self._stages[stage] = self.add_task(stage, total=total, completed=done or 0, unit=self.unit, rate="")
        self._note = self._note if note is None else note
        (task,) = (task for task in self.tasks if task.id == self._stages[stage])
        completed = task.completed + advance if done is None else done
        # Until something is done, a model is compiled.
        now = self._updated = self.get_time()
        if completed > 0:
            self._begun.setdefault(stage, (now, completed))
        first, amount = self._begun.get(stage, (now, completed))
        shown = rate(completed - amount, now - first, self.unit)
        self.update(task.id, total=total, completed=completed, rate=shown)
        if note and not self.console.is_terminal and time.monotonic() - self._printed > EVERY_SECONDS:
            of = "" if task.total is None else f" of {int(task.total):,}"
            said = self.line.format(stage=stage, done=int(task.completed), of=of, unit=self.unit, note=note)
            self.console.print(Text(said), soft_wrap=True)
            self._printed = time.monotonic()


def track(console, items, description, unit):
    """Yield the items, and advance a bar with each."""
    with Bar(console, unit) as bar:
        for item in items:
            yield item
            bar(description, 1, total=len(items))


# Column of the curve of a training, how it is shown. Those of probes are shown after these.
PRETRAINING = (
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
FINE_TUNING = (
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
SHOWN = {"pretraining": PRETRAINING, "fine-tuning": FINE_TUNING}
RATES = ("tokens_per_second", "examples_per_second", "flop_utilisation")
PROBE = "probe_"


class TrainingBar(Bar):
    """A bar for `pretrain`, `distill` and `finetune`, which report the rows of their curves: steps, and the last values below them.

    Example: `with TrainingBar(console, "pretraining", total_steps) as bar: pretrain(store, output, report=bar)`.

    Args:
        console: where to show it.
        stage: "pretraining" or "fine-tuning", which determines the values.
        total: the number of steps, if it is known.
    """

    line = "step {done:,}{of}  {note}"

    def __init__(self, console, stage, total=None):
        super().__init__(console, "steps")
        self._stage, self._total = stage, total
        self._values = {}
        self._first_row = None  # its time

    def __call__(self, row):
        """Show a row; the first has only the step where the run starts, that of a run in minutes or epochs also its `steps`."""
        self._first_row = self.get_time() if self._first_row is None else self._first_row
        shows_rates = self.get_time() - self._first_row >= SHORTEST
        self._total = row.get("steps", self._total)
        for name in ("data", "head", "scores"):
            if name in row:
                self.console.print(Text(f"{name:<8} {printable(row[name])}"), soft_wrap=True)
        self._values.pop("evaluated", None)
        self._values |= {name: value for name, value in row.items() if value is not None and (shows_rates or name not in RATES)}
        shown = [shape.format(self._values[name]) for name, shape in SHOWN[self._stage] if name in self._values]
        probes = ((name.removeprefix(PROBE).replace("_", " "), value) for name, value in self._values.items() if PROBE in name)
        note = "  ".join([*shown, *(f"{name} {value:.3f}" for name, value in probes)])
        super().__call__(self._stage, total=self._total, done=row["step"], note=note)


# The losses that a bar of `fit` shows, and what it says before the first step.
FITTED = ("MLM_loss", "NSP_loss")
FIRST = "compiling the step"


class FitBar(keras.callbacks.Callback):
    """A bar for `fit` and `evaluate`: what is compiled before the first step, for which nothing can be counted, then the steps.

    Args:
        console: where to show it.
        stage: what is done, in a word.
        total: the number of steps.

    Attributes:
        first: seconds of the first step, which compiles.
        seconds: those of all others.
    """

    def __init__(self, console, stage, total):
        super().__init__()
        self.console, self.stage, self.total = console, stage, total
        self.first = self.seconds = 0.0

    def on_train_begin(self, logs=None):
        self._started = time.perf_counter()
        self._done = 0
        self.bar = Bar(self.console, "steps")
        self.bar.line = f"  {Bar.line}"
        self.bar(FIRST)

    def on_train_batch_end(self, batch, logs=None):
        self._done += 1
        if self._done == 1:
            self.first = time.perf_counter() - self._started
            self._started = time.perf_counter()
            self.bar.remove_task(self.bar.tasks[0].id)
        logs = logs or {}
        shown = [name for name in FITTED if name in logs] or ["loss"]
        note = "  ".join(f"{name.removesuffix('_loss')} {float(logs[name]):.2f}" for name in shown if name in logs)
        self.bar(self.stage, total=self.total, done=self._done, note=note)

    def on_train_end(self, logs=None):
        self.seconds = time.perf_counter() - self._started
        self.bar.stop()

    on_test_begin, on_test_batch_end, on_test_end = on_train_begin, on_train_batch_end, on_train_end
