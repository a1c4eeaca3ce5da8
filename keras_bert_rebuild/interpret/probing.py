"""The result of probing: a frozen record, a table and JSON."""

from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

# Length of the longest bar in characters.
BAR = 24


@dataclass(frozen=True)
class Probing:
    """How well labels can be predicted from the vectors of every depth; from `probe`."""

    depths: tuple[str, ...]
    """"embedding", "block 1" and so on: the order of all tuples."""

    unit: str
    """The items with a vector and a label: "texts" or "words"."""

    labels: tuple[str, ...]
    """The labels of the training examples, sorted."""

    counts: tuple[int, int]
    """The number of texts, or words, to fit and to evaluate on."""

    accuracies: tuple[float, ...]
    """The accuracy on `dev`."""

    macro_f1s: tuple[float, ...]
    """The mean F1 of the labels on `dev`."""

    fitted: tuple[float, ...]
    """The accuracy on the training examples."""

    controls: tuple[float, ...]
    """The accuracy on the control task: for words on `dev`, for texts on the training texts."""

    l2s: tuple[float, ...]
    """The chosen strength of the penalty."""

    majority: float
    """The accuracy of always predicting the most frequent label, on `dev`."""

    words_alone: float
    """The accuracy without the model, on `dev`: from a bag of tokens, or from the most frequent label of the same word."""

    @property
    def selectivities(self) -> tuple[float, ...]:
        """The accuracy of the task minus that of the control task, both measured on the same examples."""
        measured = self.accuracies if self.unit == "words" else self.fitted
        return tuple(a - b for a, b in zip(measured, self.controls, strict=True))

    @property
    def best(self) -> int:
        """The depth with the highest accuracy, the first in case of ties."""
        return max(range(len(self.depths)), key=lambda depth: (self.accuracies[depth], -depth))

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        digits = lambda values: [round(value, 6) for value in values]  # noqa: E731
        return {
            "unit": self.unit,
            "labels": list(self.labels),
            "fitted_on": self.counts[0],
            "measured_on": self.counts[1],
            "majority": round(self.majority, 6),
            "words_alone": round(self.words_alone, 6),
            "depths": list(self.depths),
            "accuracy": digits(self.accuracies),
            "macro_f1": digits(self.macro_f1s),
            "fitted_accuracy": digits(self.fitted),
            "control": digits(self.controls),
            "selectivity": digits(self.selectivities),
            "l2": list(self.l2s),
        }

    def to_tables(self) -> Group:
        """Tables of the depths, for rich."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold")
        table.add_column("")
        for name in ("accuracy", "macro F1", "control", "selectivity", "l2"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("")
        for depth, name in enumerate(self.depths):
            style = "bold" if depth == self.best else ""
            row = (self.accuracies[depth], self.macro_f1s[depth], self.controls[depth], self.selectivities[depth])
            bar = Text("█" * round(BAR * self.accuracies[depth]), "cyan")
            table.add_row(name, *(f"{value:.3f}" for value in row), f"{self.l2s[depth]:g}", bar, style=style)
        alone = "the bag of its tokens" if self.unit == "texts" else "the word alone"
        return Group(
            Text(f"{self.counts[0]:,} {self.unit} to fit, {self.counts[1]:,} to measure on, {len(self.labels)} labels", "dim"),
            "",
            table,
            "",
            Text(f"{'most frequent label':<22} {self.majority:.3f}\n{alone:<22} {self.words_alone:.3f}"),
        )
