"""The curve of a probing and the map of a similarity, each as one SVG file for light and dark mode."""

from typing import Any

import numpy as np

from keras_bert_rebuild.files.printable import Element, svg_picture
from keras_bert_rebuild.interpret.block_similarity import BlockSimilarity
from keras_bert_rebuild.interpret.probing import Probing

STYLE = """
svg { background: #fcfbf8; font-family: ui-sans-serif, system-ui, sans-serif; font-size: 12px; color-scheme: light dark; }
text { fill: #6a665e; } .title { fill: #22211f; font-size: 15px; } .cell { fill: #3d7fd0; }
.inside { fill: #22211f; font-size: 10px; }
.grid { stroke: #e7e3da; } path { fill: none; stroke-width: 2; stroke-linejoin: round; } path.grid { stroke-width: 1; }
path.a { stroke: #2f6fbe; } path.b { stroke: #a5690f; } path.c { stroke: #6a665e; stroke-width: 1.25; stroke-dasharray: 5 4; }
circle.a, text.a { fill: #2f6fbe; } circle.b, text.b { fill: #a5690f; }
@media (prefers-color-scheme: dark) {
svg { background: #16171a; } text { fill: #a19d94; } .title { fill: #e8e6e1; } .cell { fill: #7fb2f5; } .inside { fill: #e8e6e1; }
.grid { stroke: #303136; } path.a { stroke: #7fb2f5; } path.b { stroke: #e0b160; } path.c { stroke: #a19d94; }
circle.a, text.a { fill: #7fb2f5; } circle.b, text.b { fill: #e0b160; }
}
"""

# The size of the chart of a probing, and its margins.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 52, 168, 56, 48

# The side of a cell of a map, and the margin for the names of depths.
CELL, NAMES = 34, 84


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


def draw_similarity(similarity: BlockSimilarity, title: str = "", names: tuple[str, str] = ("", "")) -> str:
    """The text of an SVG file: the CKA of all pairs of depths, the first depth at the bottom left.

    Args:
        similarity: the similarity to show.
        title: the title above it.
        names: names of the two models, at the axes.
    """
    rows, columns = similarity.values.shape
    left, top = NAMES + 24, 60
    width, height = max(left + columns * CELL + 24, 360), top + rows * CELL + 62
    parts = [_heading(title)]
    for i, name in enumerate(similarity.depths):
        y = top + (rows - 1 - i) * CELL
        parts.append(Element("text", name, x=left - 8, y=y + CELL / 2 + 4, text_anchor="end"))
        for j in range(columns):
            value, corner = float(similarity.values[i, j]), left + j * CELL
            share = min(max(value, 0.0), 1.0) if np.isfinite(value) else 0.0
            shown = f"{value:.2f}".replace("0.", ".", 1) if np.isfinite(value) else "?"
            box = {"x": corner, "y": y, "width": CELL - 2, "height": CELL - 2, "rx": 3, "fill_opacity": f"{share**2 * 0.6:.3f}"}
            parts.append(Element("rect", class_="cell", **box))
            middle = {"x": corner + CELL / 2 - 1, "y": y + CELL / 2 + 3, "text_anchor": "middle"}
            parts.append(Element("text", shown, class_="inside", **middle))
    for j, name in enumerate(similarity.other_depths):
        x, y = left + (j + 0.5) * CELL - 1, top + rows * CELL + 16
        parts.append(Element("text", _short(j, name), x=x, y=y, text_anchor="middle"))
    first, second = names
    x, y = left + columns * CELL / 2, top + rows * CELL + 36
    parts.append(Element("text", second or "block; 0 is the embedding", x=x, y=y, text_anchor="middle"))
    if first:
        y = top + rows * CELL / 2
        parts.append(Element("text", first, x=16, y=y, text_anchor="middle", transform=f"rotate(-90 16 {y})"))
    return svg_picture(width, height, title, *parts, style=STYLE)


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
