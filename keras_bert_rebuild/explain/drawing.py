"""All pictures: their colours, fonts and dark mode; charts; and boxes with arrows, as SVG or by matplotlib for other formats."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.kinds import PICTURE
from keras_bert_rebuild.files.output import check_file
from keras_bert_rebuild.files.printable import Element, svg_picture, with_minus

# Colours in light and in dark mode. On paper, those of texts and lines have the contrast that WCAG 2 asks of small text, 4.5 : 1.
PAPER, INK, SOFT = ("#fcfbf8", "#16171a"), ("#22211f", "#e8e6e1"), ("#6f6b63", "#a19d94")
GRID, FIRST, SECOND = ("#e7e3da", "#303136"), ("#2f6fbe", "#7fb2f5"), ("#a5690f", "#e0b160")
# The size of titles, in pixels.
TITLE = 14
FONT = "ui-sans-serif, system-ui, -apple-system, Segoe UI, Noto Sans, sans-serif"

# Kind of a box to its fill and edge colours in light mode, and in dark mode.
BOXES = {
    "embedding": (("#e8f0fb", "#3d7fd0"), ("#1c2738", "#5f95da")),
    "attention": (("#f2e9f7", "#9454b0"), ("#2b2233", "#b083c8")),
    "feed-forward": (("#fbefe2", "#bb7a18"), ("#32271a", "#c8924c")),
    "norm": (("#f4f2ec", "#8a857a"), ("#26262a", "#8d887d")),
    "head": (("#e4f3ec", "#2f9665"), ("#1b3027", "#4fae83")),
    "frame": ((PAPER[0], "#d6d1c5"), (PAPER[1], "#4a4a4e")),
    "plain": (("#ffffff", "#8a857a"), ("#1d1e22", "#8d887d")),
}
# Of diagrams: attributes have the colours of light mode, for programs without style sheets. A notebook has the picture in its own
# page, whose other pictures must not change.
DARK = f"""
@media (prefers-color-scheme: dark) {{
.diagram .paper {{ fill: {PAPER[1]}; }} .diagram text {{ fill: {SOFT[1]}; }} .diagram text.title {{ fill: {INK[1]}; }}
.diagram polyline, .diagram marker path {{ stroke: {SOFT[1]}; }}
{"".join(f".diagram .{kind} {{ fill: {fill}; stroke: {edge}; }}{chr(10)}" for kind, (_, (fill, edge)) in BOXES.items())}}}
"""


def _colours(mode):
    """The rules of the style sheet with the colours of a mode, 0 for light and 1 for dark."""
    paper, ink, soft, grid, first, second = (colour[mode] for colour in (PAPER, INK, SOFT, GRID, FIRST, SECOND))
    return (
        f"svg {{ background: {paper}; }} text, circle.c {{ fill: {soft}; }} .title {{ fill: {ink}; }} .grid {{ stroke: {grid}; }}\n"
        f"path.a {{ stroke: {first}; }} path.b {{ stroke: {second}; }} path.c {{ stroke: {soft}; }}\n"
        f"circle.a, text.a, tspan.a {{ fill: {first}; }} circle.b, text.b, tspan.b {{ fill: {second}; }}\n"
    )


# The style sheet of charts: classes a and b are for two curves that are compared, with their texts, and c is for all others.
STYLE = f"""
svg {{ font-family: {FONT}; font-size: 11px; color-scheme: light dark; max-width: 100%; height: auto; }}
.title {{ font-size: {TITLE}px; }}
path {{ fill: none; stroke-width: 1.75; stroke-linejoin: round; }} path.grid {{ stroke-width: 1; }} circle {{ stroke: none; }}
{_colours(0)}@media (prefers-color-scheme: dark) {{
{_colours(1)}}}
"""
# Of pictures that are wider than a phone: texts grow where the picture shrinks.
WIDE = "@media (max-width: 560px) { svg { font-size: 15px; } .title { font-size: 17px; } }\n"


@dataclass(frozen=True)
class Chart:
    """The axes of a chart, from which the pixels of its lines and texts are computed."""

    width: float
    """Of the chart with its margins, in pixels; likewise the height."""

    height: float
    """See `width`."""

    margins: tuple[float, float, float, float]
    """Space for texts: left, right, top, bottom."""

    across: tuple[float, float]
    """The numbers at the left and right end of the axis."""

    up: tuple[float, float]
    """The numbers at the bottom and at the top."""

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The pixels of a point, `(x, y)`."""
        left, right, top, bottom = self.margins
        right_of_left = (x - self.across[0]) * (self.width - left - right) / ((self.across[1] - self.across[0]) or 1)
        above_bottom = (y - self.up[0]) * (self.height - top - bottom) / (self.up[1] - self.up[0])
        return left + right_of_left, self.height - bottom - above_bottom

    def grid(self, ticks: Iterable[float], spelled: Callable[[float], str]) -> Iterator[Element]:
        """Lines across with their numbers on the left."""
        for tick in ticks:
            yield self.level(tick, class_="grid")
            yield Element(
                "text", with_minus(spelled(tick)), x=self.margins[0] - 8, y=f"{self.at(0, tick)[1] + 4:.1f}", text_anchor="end"
            )

    def level(self, y: float, **attributes: Any) -> Element:
        """A line across."""
        return Element("path", **attributes, d=f"M{self.margins[0]} {self.at(0, y)[1]:.1f}H{self.width - self.margins[1]}")

    def dashed(self, y: float) -> Element:
        """The dashed line of a baseline."""
        return self.level(y, class_="c", stroke_dasharray="4 4")

    def below(self, x: float, text: str, anchor: str = "middle", line: int = 1) -> Element:
        """A text in a line below the axis."""
        position = {"x": f"{self.at(x, self.up[0])[0]:.1f}", "y": self.height - self.margins[3] + 18 * line}
        return Element("text", text, **position, text_anchor=anchor)

    def curve(self, points: Sequence[tuple[float, float]], kind: str, marked: bool = True) -> Iterator[Element]:
        """A line through points, which are marked by circles.

        Args:
            points: pairs of numbers.
            kind: a class of the style sheet, "a", "b" or "c".
            marked: whether there are circles.
        """
        pixels = [self.at(*point) for point in points]
        yield Element("path", class_=kind, d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in pixels))
        if marked:
            yield from (Element("circle", class_=kind, cx=f"{x:.1f}", cy=f"{y:.1f}", r=2.5) for x, y in pixels)


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
        head = Element("path", d="M0.5 1 L7 4 L0.5 7", fill="none", stroke=SOFT[0], stroke_width=1.2)
        size = {"viewBox": "0 0 8 8", "refX": 7, "refY": 4, "markerWidth": 7, "markerHeight": 7}
        arrow = Element("defs", Element("marker", head, id="arrow", **size, orient="auto"))
        paper = Element("rect", class_="paper", width="100%", height="100%", fill=PAPER[0])
        shapes = (shape for part in self.parts for shape in _shapes(part))
        return svg_picture(
            self.width, self.height, self.label, arrow, paper, *shapes, style=DARK, class_="diagram", font_family=FONT
        )

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


def _shapes(part):
    """A part as elements of SVG."""
    if isinstance(part, Box):
        fill, edge = BOXES[part.kind][0]
        size = {"x": f"{part.x:g}", "y": f"{part.y:g}", "width": f"{part.width:g}", "height": f"{part.height:g}"}
        yield Element("rect", class_=part.kind, **size, rx=7, fill=fill, stroke=edge)
    elif isinstance(part, Line):
        points = " ".join(f"{x:g},{y:g}" for x, y in part.points)
        style = {"fill": "none", "stroke": SOFT[0], "stroke_width": 1.2, "stroke_linejoin": "round", "marker_end": "url(#arrow)"}
        yield Element("polyline", points=points, **style)
    for x, y, text, size, colour, anchor in _texts(part):
        kind = "title" if colour == INK[0] else None
        yield Element("text", text, class_=kind, x=f"{x:g}", y=f"{y:g}", font_size=f"{size:g}", fill=colour, text_anchor=anchor)


def _texts(part):
    """The texts of a part: `(x, y, text, size in pixels, colour, anchor)`."""
    if isinstance(part, Words):
        yield (part.x, part.y, part.text, *((19, INK[0]) if part.large else (12, SOFT[0])), "end" if part.end else "start")
    elif isinstance(part, Box):
        middle = part.y + part.height / 2 + (-3 if part.detail else 5)
        if part.title:
            yield part.centre, middle, part.title, TITLE, INK[0], "middle"
        if part.detail:
            yield part.centre, middle + 17, part.detail, 11.5, SOFT[0], "middle"


def _figure(diagram):
    """A `Diagram` as a `matplotlib.figure.Figure`, 100 units per inch."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyBboxPatch
    except ImportError:
        raise ImportError("a picture other than .svg needs matplotlib: pip install matplotlib.") from None
    figure = Figure(figsize=(diagram.width / 100, diagram.height / 100), facecolor=PAPER[0])
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, diagram.width), ylim=(diagram.height, 0))
    axes.set_axis_off()
    sides = {"start": "left", "middle": "center", "end": "right"}
    for part in diagram.parts:
        if isinstance(part, Box):
            fill, edge = BOXES[part.kind][0]
            style = {"boxstyle": "round,pad=0,rounding_size=7", "facecolor": fill, "edgecolor": edge, "linewidth": 0.8}
            axes.add_patch(FancyBboxPatch((part.x, part.y), part.width, part.height, **style))
        elif isinstance(part, Line):
            axes.plot(*zip(*part.points, strict=True), color=SOFT[0], linewidth=0.8)
            arrow = {"arrowstyle": "->", "color": SOFT[0], "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", part.points[-1], part.points[-2], arrowprops=arrow)
        for x, y, text, size, colour, anchor in _texts(part):
            alignment = {"ha": sides[anchor], "va": "baseline", "parse_math": False}
            axes.text(x, y, text, fontsize=0.68 * size, color=colour, **alignment)
    return figure
