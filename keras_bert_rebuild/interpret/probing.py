"""The result of probing: a frozen record, its JSON, its table in a terminal and its picture."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Group
from rich.text import Text

from keras_bert_rebuild.explain.record import NUMBER, Record, make_table
from keras_bert_rebuild.files.markup import Element, svg_picture

# Length of the longest bar in characters.
BAR = 24


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


STYLE = """
svg { background: #fcfbf8; font-family: ui-sans-serif, system-ui, sans-serif; font-size: 12px; color-scheme: light dark; }
text { fill: #6a665e; } .title { fill: #22211f; font-size: 15px; }
.grid { stroke: #e7e3da; } path { fill: none; stroke-width: 2; stroke-linejoin: round; } path.grid { stroke-width: 1; }
path.a { stroke: #2f6fbe; } path.b { stroke: #a5690f; } path.c { stroke: #6a665e; stroke-width: 1.25; stroke-dasharray: 5 4; }
circle.a, text.a { fill: #2f6fbe; } circle.b, text.b { fill: #a5690f; }
@media (prefers-color-scheme: dark) {
svg { background: #16171a; } text { fill: #a19d94; } .title { fill: #e8e6e1; }
.grid { stroke: #303136; } path.a { stroke: #7fb2f5; } path.b { stroke: #e0b160; } path.c { stroke: #a19d94; }
circle.a, text.a { fill: #7fb2f5; } circle.b, text.b { fill: #e0b160; }
}
"""

# The size of the chart of a probing, and its margins.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 52, 168, 56, 48


def draw_probing(probing: Probing, title: str = "") -> str:
    """The text of an SVG file: accuracy of the task and the control task by depth, and baselines without the model."""
    across = (WIDTH - LEFT - RIGHT) / max(len(probing.depths) - 1, 1)
    measured = (*probing.accuracies, *probing.controls, probing.majority, probing.words_alone)
    low = min(np.floor(min(measured) * 10 + 1e-9) / 10, 0.9)
    at = lambda depth, value: (LEFT + depth * across, TOP + (HEIGHT - TOP - BOTTOM) * (1 - value) / (1 - low))  # noqa: E731
    parts = [_heading(title)]
    for tick in np.arange(round(low * 10), 11) / 10:
        y = at(0, tick)[1]
        parts.append(Element("path", class_="grid", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}"))
        parts.append(Element("text", f"{tick:.0%}", x=LEFT - 8, y=f"{y + 4:.1f}", text_anchor="end"))
    for depth, name in enumerate(probing.depths):
        if len(probing.depths) <= 13 or depth % 2 == 0:
            x = f"{at(depth, low)[0]:.1f}"
            parts.append(Element("text", _short(depth, name), x=x, y=HEIGHT - BOTTOM + 20, text_anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(Element("text", "block; 0 is the embedding", x=middle, y=HEIGHT - BOTTOM + 38, text_anchor="middle"))
    last = len(probing.depths) - 1
    labels: list[tuple[Any, str, str | None]] = []
    for value, word in ((probing.majority, "most frequent label"), (probing.words_alone, "words alone")):
        y = at(0, value)[1]
        parts.append(Element("path", class_="c", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}"))
        labels.append((y, word, None))
    for values, word, kind in ((probing.accuracies, "accuracy", "a"), (probing.controls, "control task", "b")):
        points = [at(depth, value) for depth, value in enumerate(values)]
        parts.append(Element("path", class_=kind, d=f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in points)}"))
        parts += [Element("circle", class_=kind, cx=f"{x:.1f}", cy=f"{y:.1f}", r=3) for x, y in points]
        labels.append((points[last][1], word, kind))
    for y, word, kind in _apart(labels):
        parts.append(Element("text", word, class_=kind, x=WIDTH - RIGHT + 12, y=f"{y + 4:.1f}"))
    return svg_picture(WIDTH, HEIGHT, title, *parts, style=STYLE)


def _heading(title):
    return Element("text", title, class_="title", x=24, y=30)


def _short(depth, name):
    """The name of a depth at an axis."""
    return "0" if not depth else name.rpartition(" ")[2]


def _apart(labels):
    """Positions of labels from top to bottom, at least a line of text apart."""
    placed = []
    for y, word, kind in sorted(labels, key=lambda label: label[:2]):
        placed.append((max(y, placed[-1][0] + 15) if placed else y, word, kind))
    return placed
