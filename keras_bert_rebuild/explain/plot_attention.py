"""One attention map as a figure for a paper."""

import os
from pathlib import Path
from typing import Any

from keras_bert_rebuild.explain.attention_maps import AttentionMaps
from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.kinds import PICTURE
from keras_bert_rebuild.files.output import check_file


def plot_attention(maps: AttentionMaps, layer: int, head: int, path: str | os.PathLike[str] | None = None, *, text: int = 0) -> Any:
    """Draw the map of one head with matplotlib.

    Args:
        maps: `AttentionMaps`.
        layer, head: indices from 0, out of `maps.layers` and `maps.heads`.
        path: also write a PNG, PDF or SVG, depending on the suffix; None to write nothing. An existing picture is replaced.
        text: index of the row of the batch.

    Returns:
        A `matplotlib.figure.Figure` with queries as rows and keys as columns.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the layer, head or text does not exist, or the existing file is not a picture.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot_attention needs matplotlib: pip install matplotlib.") from None
    for what, number, numbers in (("layer", layer, maps.layers), ("head", head, maps.heads), ("text", text, range(len(maps.mask)))):
        if number not in numbers:
            raise ValueError(f"{what} must be one of {', '.join(map(str, numbers))}; got {number}.")
    if path is not None:  # before the work
        path = Path(path) if Path(path).suffix else Path(path).with_suffix(".png")
        check_file(path, PICTURE)
    maps_of_text = maps.of_text(text)
    grid = maps_of_text.probabilities[maps.layers.index(layer), 0, maps.heads.index(head)]
    tokens = maps_of_text.tokens[0] if maps_of_text.tokens is not None else tuple(map(str, maps_of_text.ids[0]))
    side = 1.2 + 0.17 * min(len(tokens), 60)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    axes = figure.add_subplot()
    picture = axes.imshow(grid, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    ticks = range(0, len(tokens), 1 + len(tokens) // 60)
    for axis, rotation in ((axes.xaxis, 90), (axes.yaxis, 0)):
        # A dollar sign is a token, not TeX.
        axis.set_ticks(ticks, [tokens[i] for i in ticks], rotation=rotation, fontsize=7, parse_math=False)
        axis.set_tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("key", fontsize=8)
    axes.set_ylabel("query", fontsize=8)
    axes.set_title(f"Layer {layer}, head {head}", fontsize=9, loc="left")
    bar = figure.colorbar(picture, ax=axes, shrink=0.6, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=0)
    if path is not None:
        write_file(path, lambda file: figure.savefig(file, dpi=200, format=path.suffix[1:].lower()))
    return figure
