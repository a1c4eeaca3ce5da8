"""Sequence packing: which sequences share a row of a given length."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class PackingPlan:
    """Kinds of rows, by the lengths of the pieces in them, and the number of rows of each kind."""

    lengths: np.ndarray
    """The lengths of the pieces in a row of each kind, `(kinds, pieces)`, padded with 0."""

    counts: np.ndarray
    """The number of rows of each kind, `(kinds,)`."""

    firsts: np.ndarray
    """For the first row of each kind, the index of each piece among the pieces of its length, `(kinds, pieces)`; it increases by
    one with each further row."""


def packing_plan(histogram, capacity, most=None):
    """Best-fit decreasing: pieces are placed longest first, each in the fullest row that still has room for it.

    Args:
        histogram: the number of pieces of every length, `(longest + 1,)`; length 0 is ignored.
        capacity: the length of a row.
        most: maximum number of pieces of a row; None for no limit.

    Returns:
        A `PackingPlan`.

    Reference: Krell et al., 2021, "Efficient sequence packing without cross-contamination", section 3.2
    (https://arxiv.org/abs/2107.02027), on the histogram, so that the time does not grow with the number of pieces.
    """
    done, by_room = [], {}

    def put(row, count):
        room = capacity - sum(row) if len(row) != most else 0
        if count:
            (by_room.setdefault(room, []) if room else done).append((row, count))

    for length in range(len(histogram) - 1, 0, -1):
        left = int(histogram[length])
        while left:
            room = min((room for room in by_room if room >= length and by_room[room]), default=None)
            if room is None:
                # A new row gets as many pieces of this length as fit.
                copies = min(capacity // length, left, most or left)
                put((length,) * copies, left // copies)
                left %= copies
            else:
                row, count = by_room[room].pop()
                used = min(count, left)
                put(row, count - used)
                put((*row, length), used)
                left -= used
    rows = sorted(done + [row for of_room in by_room.values() for row in of_room])
    lengths = np.zeros((len(rows), max((len(row) for row, _ in rows), default=1)), "int64")
    firsts, seen = np.zeros_like(lengths), np.zeros(len(histogram), "int64")
    for kind, (row, count) in enumerate(rows):
        for piece, length in enumerate(row):
            lengths[kind, piece], firsts[kind, piece] = length, seen[length]
            seen[length] += count
    return PackingPlan(lengths, np.array([count for _, count in rows], "int64"), firsts)


def packed_places(sizes: npt.NDArray[np.int64], length: int, most: int | None = None) -> tuple[Any, Any, Any, int]:
    """Where texts of the given sizes are placed in rows of a length.

    Args:
        sizes: the size of every text, at least 1.
        length: the length of a row.
        most: maximum number of texts of a row; None for no limit.

    Returns:
        For every text its row, its first column and its index in the row, `(texts,)`; and the number of rows.
    """
    plan = packing_plan(np.bincount(sizes), length, most)
    lengths, firsts = np.repeat(plan.lengths, plan.counts, axis=0), np.repeat(plan.firsts, plan.counts, axis=0)
    instance = np.arange(len(lengths)) - np.repeat(np.cumsum(plan.counts) - plan.counts, plan.counts)
    rows, slots = np.nonzero(lengths)
    columns = (np.cumsum(lengths, axis=1) - lengths)[rows, slots]
    # The plan counts texts by length; here they are mapped back to their indices.
    by_size = np.argsort(sizes, kind="stable")
    begins = np.cumsum(np.bincount(sizes)) - np.bincount(sizes)
    texts = by_size[begins[lengths[rows, slots]] + (firsts + instance[:, None])[rows, slots]]
    positions = np.empty((3, len(sizes)), "int64")
    positions[:, texts] = rows, columns, slots
    return (*positions, len(lengths))
