"""A diagram as a figure of matplotlib."""

from keras_bert_rebuild.explain.diagram import COLOURS, INK, SOFT, Box, Line


def diagram_figure(diagram):
    """Draw a `Diagram`.

    Returns:
        A `matplotlib.figure.Figure` of its size, 100 units to the inch.

    Raises:
        ImportError: there is no matplotlib.
    """
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
