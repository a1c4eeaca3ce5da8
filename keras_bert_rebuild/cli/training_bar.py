"""A bar for a long training, fed with the rows of its curve."""

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

# Column of the curve, how it is shown.
SHOWN = (
    ("mlm_loss", "MLM {:.3f}"),
    ("mlm_perplexity", "ppl {:.4g}"),
    ("mlm_accuracy", "acc {:.1%}"),
    ("pair_accuracy", "pair {:.0%}"),
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

    shown: tuple = SHOWN

    def __init__(self, console, total):
        times = (TextColumn("steps"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        self._note = ""
        super().__init__(BarColumn(), MofNCompleteColumn(), *times, console=console, speed_estimate_period=3600)
        self._task = self.add_task("pretraining", total=total)
        self._known = None
        self._printed = time.monotonic()

    def get_renderables(self):
        yield from super().get_renderables()
        if self._note:
            yield Text(self._note, overflow="ellipsis", no_wrap=True)

    def __call__(self, row):
        """Show a row of the curve; the first has only the step where the run starts."""
        if self._known is None:
            self.reset(self._task, completed=row["step"])
            self._known = {}
        self._known.update({name: value for name, value in row.items() if value is not None})
        self._note = "  ".join(shape.format(self._known[name]) for name, shape in self.shown if name in self._known)
        self.update(self._task, completed=row["step"])
        if not self.console.is_terminal and time.monotonic() - self._printed > EVERY_SECONDS:
            line = Text(f"step {row['step']:,} of {self.tasks[0].total:,}  {self._note}")
            self.console.print(line, soft_wrap=True)
            self._printed = time.monotonic()
