"""How an array lies in a foreign file, and how it becomes one of ours and theirs again."""

import math
from collections import namedtuple

# Whether the shape of theirs fits the shape of ours, theirs → ours, ours → theirs; None where nothing is written.
Layout = namedtuple("Layout", ["fits", "to_ours", "to_theirs"])

LAYOUTS = {
    "same": Layout(
        fits=lambda theirs, ours: theirs == ours,
        to_ours=lambda array, shape: array,
        to_theirs=lambda array: array,
    ),
    "transposed": Layout(
        fits=lambda theirs, ours: theirs == ours[::-1],
        to_ours=lambda array, shape: array.T,
        to_theirs=lambda array: array.T,
    ),
    # A table of positions, which may be shortened or made longer on the way in: see `positions.py`.
    "positions": Layout(
        fits=lambda theirs, ours: len(theirs) == 2 and theirs[1] == ours[1],
        to_ours=lambda array, shape: array,
        to_theirs=lambda array: array,
    ),
    # (hidden, heads, width of a head) and the like, for (hidden, hidden).
    "split": Layout(
        fits=lambda theirs, ours: math.prod(theirs) == math.prod(ours) and len(theirs) >= len(ours),
        to_ours=lambda array, shape: array.reshape(shape),
        to_theirs=None,
    ),
}


# The shape that an array of theirs has as one of ours, and the slice of its last axis that a variable is.
Place = namedtuple("Place", ["shape", "span"])


def place_of(row, shapes):
    """Where a variable lies in the array of a row.

    Args:
        row: a `Row` of a name table.
        shapes: variable path to shape; the paths that lie in the same array are among them.
    """
    shape = tuple(shapes[row.path])
    if not row.paths:
        return Place(shape, None)
    widths = [shapes[path][-1] for path in row.paths]
    start = sum(widths[: row.paths.index(row.path)])
    return Place((*shape[:-1], sum(widths)), slice(start, start + shape[-1]))
