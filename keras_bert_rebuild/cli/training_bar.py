"""A bar for a long training, fed with the rows of its curve."""

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

# Column of the curve, how it is shown.
SHOWN = (
    ("mlm_loss", "MLM {:.3f}"),
    ("mlm_perplexity", "ppl {:.1f}"),
    ("mlm_accuracy", "acc {:.1%}"),
    ("pair_accuracy", "pair {:.1%}"),
    ("tokens_per_second", "{:,.0f} tokens/s"),
    ("flop_utilisation", "MFU {:.0%}"),
    ("held_out_mlm_loss", "held out {:.3f}"),
)


class TrainingBar:
    """Steps done, what the last rows said, and the time left.

    Example: `with TrainingBar(console, total_steps) as bar: pretrain(store, output, report=bar)`.
    """

    def __init__(self, console, total):
        columns = (SpinnerColumn(), TextColumn("pretraining"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=console, speed_estimate_period=3600)
        self.task = self.bar.add_task("pretraining", total=total, note="")
        self._known = None
        self._printed = time.monotonic()

    def __enter__(self):
        self.bar.start()
        return self

    def __exit__(self, *_):
        self.bar.stop()

    def __call__(self, row):
        """Show a row of the curve; the first says only where the run starts."""
        if self._known is None:
            self.bar.reset(self.task, completed=row["step"])
            self._known = {}
        self._known.update({name: value for name, value in row.items() if value is not None})
        note = "  ".join(shape.format(self._known[name]) for name, shape in SHOWN if name in self._known)
        self.bar.update(self.task, completed=row["step"], note=note)
        if not self.bar.console.is_terminal and time.monotonic() - self._printed > 30:
            # A log file has no use for a bar that moves.
            self.bar.console.print(f"step {row['step']:,} of {self.bar.tasks[0].total:,}  {note}", highlight=False)
            self._printed = time.monotonic()
