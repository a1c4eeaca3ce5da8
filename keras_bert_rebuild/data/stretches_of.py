"""The spans of a corpus that positions are in."""

import numpy as np


def span_indexes(starts, positions):
    """The index of the span that every position is in.

    Most rows of positions are in one span: then only their minimum and maximum are searched for.

    Args:
        starts: where spans start, ascending, the first at or before the smallest position.
        positions: whole numbers `(...)`.

    Returns:
        Whole numbers that broadcast to the shape of `positions`: `(...)` or, if every row of positions `(rows, columns)` is in one
        span, `(rows, 1)`.
    """
    if positions.ndim == 2 and positions.size:
        first, last = (np.searchsorted(starts, ends, side="right") - 1 for ends in (positions.min(axis=1), positions.max(axis=1)))
        divided = np.flatnonzero(first < last)
        if not len(divided):
            return first[:, None]
        found = np.repeat(first[:, None], positions.shape[1], axis=1)
        found[divided] = np.searchsorted(starts, positions[divided], side="right") - 1
        return found
    return np.searchsorted(starts, positions, side="right") - 1
