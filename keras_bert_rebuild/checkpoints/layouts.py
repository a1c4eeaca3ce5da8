"""The layout of an array in a foreign file, and the conversion to ours and back."""

import math
from collections import namedtuple

# Whether the shape of theirs fits the shape of ours, theirs → ours, ours → theirs; None if it is never written.
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
    # A position table, which may be shortened or extended when it is read: see `positions.py`.
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


# The shape of one of their arrays in our layout, and the slice of its last axis that holds a variable.
ArraySlice = namedtuple("ArraySlice", ["shape", "span"])


def slice_of(row, shapes):
    """Where a variable is in the array of a row.

    Args:
        row: a `Row` of a name table.
        shapes: variable path to shape, including all paths of the same array.
    """
    shape = tuple(shapes[row.path])
    if not row.paths:
        return ArraySlice(shape, None)
    widths = [shapes[path][-1] for path in row.paths]
    start = sum(widths[: row.paths.index(row.path)])
    return ArraySlice((*shape[:-1], sum(widths)), slice(start, start + shape[-1]))
