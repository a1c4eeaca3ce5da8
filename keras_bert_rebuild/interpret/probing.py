"""The result of probing: a frozen record, its JSON, its table in a terminal and its picture."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Group
from rich.text import Text

from keras_bert_rebuild.explain.drawing import STYLE, WIDE, Chart
from keras_bert_rebuild.explain.record import NUMBER, Record, make_table
from keras_bert_rebuild.files.printable import Element, svg_picture

# Length of the longest bar in characters.
BAR = 24

# The size of the chart, and its margins: left, right, top, bottom.
WIDTH, HEIGHT, MARGINS = 640, 360, (52, 168, 56, 48)


@dataclass(frozen=True)
class Probing(Record):
    """How well labels can be predicted from the vectors of every depth; from `probe`."""

    json_indent: ClassVar[int | None] = None

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

    def to_tables(self, width: int = 100) -> Group:
        """Tables of the depths, for rich."""
        numbers = ((name, NUMBER) for name in ("accuracy", "macro F1", "control", "selectivity", "l2"))
        table = make_table(("", {}), *numbers, ("", {}))
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


def draw_probing(probing: Probing, title: str = "") -> str:
    """The text of an SVG file: accuracy of the task and the control task by depth, and baselines without the model."""
    measured = (*probing.accuracies, *probing.controls, probing.majority, probing.words_alone)
    low = min(np.floor(min(measured) * 10 + 1e-9) / 10, 0.9)
    last = len(probing.depths) - 1
    chart = Chart(WIDTH, HEIGHT, MARGINS, across=(0, max(last, 1)), up=(low, 1))
    parts = [Element("text", title, class_="title", x=24, y=30)]
    parts += chart.grid(np.arange(round(low * 10), 11) / 10, "{:.0%}".format)
    for depth, name in enumerate(probing.depths):
        if len(probing.depths) <= 13 or depth % 2 == 0:
            parts.append(chart.below(depth, "0" if not depth else name.rpartition(" ")[2]))
    parts.append(chart.below(max(last, 1) / 2, "block; 0 is the embedding", line=2))
    labels: list[tuple[float, str, str | None]] = []
    for value, word in ((probing.majority, "most frequent label"), (probing.words_alone, "words alone")):
        parts.append(chart.dashed(value))
        labels.append((chart.at(0, value)[1], word, None))
    for values, word, kind in ((probing.accuracies, "accuracy", "a"), (probing.controls, "control task", "b")):
        parts += chart.curve([*enumerate(values)], kind)
        labels.append((chart.at(last, values[-1])[1], word, kind))
    for y, word, kind in _apart(labels):
        parts.append(Element("text", word, class_=kind, x=WIDTH - MARGINS[1] + 12, y=f"{y + 4:.1f}"))
    return svg_picture(WIDTH, HEIGHT, title, *parts, style=STYLE + WIDE)


def _apart(labels):
    """Positions of labels from top to bottom, at least a line of text apart."""
    placed = []
    for y, word, kind in sorted(labels, key=lambda label: label[:2]):
        placed.append((max(y, placed[-1][0] + 15) if placed else y, word, kind))
    return placed
