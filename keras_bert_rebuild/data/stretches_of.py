"""In which of several stretches of a corpus positions lie."""

import numpy as np


def stretches_of(starts, positions):
    """The number of the stretch that every position lies in.

    Most rows of positions lie in one stretch: then only their least and their greatest position are searched for.

    Args:
        starts: where stretches start, ascending, the first at the least position.
        positions: whole numbers `(...)`.

    Returns:
        Whole numbers that go with `positions`, `(...)` or, where every row of positions `(rows, columns)` lies in one stretch,
        `(rows, 1)`.
    """
    if positions.ndim == 2 and positions.size:
        first, last = (np.searchsorted(starts, ends, side="right") - 1 for ends in (positions.min(axis=1), positions.max(axis=1)))
        apart = np.flatnonzero(first < last)
        if not len(apart):
            return first[:, None]
        found = np.repeat(first[:, None], positions.shape[1], axis=1)
        found[apart] = np.searchsorted(starts, positions[apart], side="right") - 1
        return found
    return np.searchsorted(starts, positions, side="right") - 1
