"""Boxes and arrows, written as SVG, or drawn by matplotlib for other formats."""

import os
from dataclasses import dataclass
from pathlib import Path

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.kinds import PICTURE
from keras_bert_rebuild.files.output import check_file
from keras_bert_rebuild.files.printable import Element, svg_picture

# Kind of a box to its fill and edge colours.
COLOURS = {
    "embedding": ("#e8f0fb", "#3d7fd0"),
    "attention": ("#f2e9f7", "#9454b0"),
    "feed-forward": ("#fbefe2", "#bb7a18"),
    "norm": ("#f4f2ec", "#8a857a"),
    "head": ("#e4f3ec", "#2f9665"),
    "frame": ("#fcfbf8", "#d6d1c5"),
    "plain": ("#ffffff", "#8a857a"),
}
INK, SOFT = "#22211f", "#6f6b63"
FONT = "ui-sans-serif, system-ui, -apple-system, Segoe UI, Noto Sans, sans-serif"


@dataclass(frozen=True)
class Box:
    """A rectangle with a title and a line of detail; `x` and `y` are its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    title: str = ""
    detail: str = ""
    kind: str = "plain"

    @property
    def centre(self):
        """The horizontal centre."""
        return self.x + self.width / 2

    @property
    def below(self):
        """The lower edge."""
        return self.y + self.height


@dataclass(frozen=True)
class Line:
    """A line through points `(x, y)` with an arrow at its end."""

    points: tuple


@dataclass(frozen=True)
class Words:
    """A line of text that starts, or ends, at `(x, y)`."""

    x: float
    y: float
    text: str
    end: bool = False
    large: bool = False


@dataclass(frozen=True)
class Diagram:
    """A drawing that a notebook shows; `save` writes it as .svg, or, with matplotlib, as .png or .pdf."""

    width: float
    height: float
    parts: tuple
    label: str

    def to_svg(self) -> str:
        """The text of an SVG file."""
        head = Element("path", d="M0.5 1 L7 4 L0.5 7", fill="none", stroke=SOFT, stroke_width=1.2)
        size = {"viewBox": "0 0 8 8", "refX": 7, "refY": 4, "markerWidth": 7, "markerHeight": 7}
        arrow = Element("defs", Element("marker", head, id="arrow", **size, orient="auto"))
        paper = Element("rect", width="100%", height="100%", fill="#fcfbf8")
        shapes = (shape for part in self.parts for shape in _WRITERS[type(part)](part))
        return svg_picture(self.width, self.height, self.label, arrow, paper, *shapes, font_family=FONT)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file atomically.

        Args:
            path: the suffix determines the format. An existing picture is replaced, any other file is not.

        Returns:
            The path.

        Raises:
            ImportError: the suffix is not .svg, and matplotlib is not installed.
            ValueError: the suffix is not that of a picture format, or the existing file is not a picture.
            OSError: the file cannot be written.
        """
        path = Path(path)
        check_file(path, PICTURE)
        if path.suffix.lower() == ".svg":
            write_file(path, lambda file: file.write(self.to_svg().encode("utf-8")))
        else:
            figure = _figure(self)
            write_file(path, lambda file: figure.savefig(file, dpi=200, format=path.suffix.lower().lstrip(".")))
        return path

    def __repr__(self):
        return f"<Diagram of {self.width:g} x {self.height:g}: {self.label}; save('model.svg') writes it>"

    def _repr_svg_(self):
        return self.to_svg()


def _box(box):
    fill, edge = COLOURS[box.kind]
    size = {"x": f"{box.x:g}", "y": f"{box.y:g}", "width": f"{box.width:g}", "height": f"{box.height:g}"}
    yield Element("rect", **size, rx=7, fill=fill, stroke=edge)
    middle = box.y + box.height / 2 + (-3 if box.detail else 5)
    if box.title:
        yield _text(box.centre, middle, box.title, 14, INK, "middle")
    if box.detail:
        yield _text(box.centre, middle + 17, box.detail, 11.5, SOFT, "middle")


def _line(line):
    points = " ".join(f"{x:g},{y:g}" for x, y in line.points)
    style = {"fill": "none", "stroke": SOFT, "stroke_width": 1.2, "stroke_linejoin": "round", "marker_end": "url(#arrow)"}
    yield Element("polyline", points=points, **style)


def _words(words):
    size, colour = (19, INK) if words.large else (12, SOFT)
    yield _text(words.x, words.y, words.text, size, colour, "end" if words.end else "start")


def _text(x, y, text, size, colour, anchor):
    return Element("text", text, x=f"{x:g}", y=f"{y:g}", font_size=f"{size:g}", fill=colour, text_anchor=anchor)


_WRITERS = {Box: _box, Line: _line, Words: _words}


def _figure(diagram):
    """A `Diagram` as a `matplotlib.figure.Figure`, 100 units per inch."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyBboxPatch
    except ImportError:
        raise ImportError("a picture other than .svg needs matplotlib: pip install matplotlib.") from None
    figure = Figure(figsize=(diagram.width / 100, diagram.height / 100), facecolor="#fcfbf8")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, diagram.width), ylim=(diagram.height, 0))
    axes.set_axis_off()
    text = {"parse_math": False, "va": "baseline"}
    for part in diagram.parts:
        if isinstance(part, Box):
            fill, edge = COLOURS[part.kind]
            style = "round,pad=0,rounding_size=7"
            corner = (part.x, part.y)
            axes.add_patch(
                FancyBboxPatch(corner, part.width, part.height, boxstyle=style, facecolor=fill, edgecolor=edge, linewidth=0.8)
            )
            middle = part.y + part.height / 2 + (-3 if part.detail else 5)
            axes.text(part.centre, middle, part.title, fontsize=9.5, color=INK, ha="center", **text)
            axes.text(part.centre, middle + 17, part.detail, fontsize=7.8, color=SOFT, ha="center", **text)
        elif isinstance(part, Line):
            axes.plot(*zip(*part.points, strict=True), color=SOFT, linewidth=0.8)
            arrow = {"arrowstyle": "->", "color": SOFT, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", part.points[-1], part.points[-2], arrowprops=arrow)
        else:
            size, colour = (13, INK) if part.large else (8.2, SOFT)
            axes.text(part.x, part.y, part.text, fontsize=size, color=colour, ha="right" if part.end else "left", **text)
    return figure
