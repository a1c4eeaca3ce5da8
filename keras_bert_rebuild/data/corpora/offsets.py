"""Ascending offsets of passages or documents of which only what is read is in memory."""

import abc

import numpy as np


def by_piece(pieces):
    """Yield every piece that occurs, and the indices of the items in it.

    Args:
        pieces: the piece of every item, integers `(items,)`.
    """
    order = np.argsort(pieces, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(pieces[order])) + 1):
        if len(group):
            yield int(pieces[group[0]]), group


class Offsets(abc.ABC):
    """Offsets in consecutive pieces of a corpus, and last the number of its tokens, read like an int64 array `(offsets,)`.

    They are indexed by integers, slices and arrays, searched by `np.searchsorted`, and copied into memory by `np.asarray`.

    Args:
        counts: the number of offsets of every piece.
        begins: the first token of every piece, and last the number of tokens.
    """

    dtype = np.dtype("int64")

    def __init__(self, counts, begins):
        self._firsts = np.concatenate([[0], np.cumsum(counts)]).astype("int64")
        self._begins = np.asarray(begins, "int64")

    def __len__(self):
        return int(self._firsts[-1]) + 1

    def __getitem__(self, index):
        indexes = np.arange(*index.indices(len(self))) if isinstance(index, slice) else np.asarray(index)
        flat = np.where(indexes < 0, indexes + len(self), indexes).ravel()
        if flat.size and (flat.min() < 0 or flat.max() >= len(self)):
            raise IndexError(f"expected indices below {len(self)}; got {indexes.min()} to {indexes.max()}.")
        result = np.full(flat.shape, self._begins[-1])
        inside = flat < self._firsts[-1]
        pieces = np.searchsorted(self._firsts, flat[inside], side="right") - 1
        result[inside] = self._read(pieces, flat[inside] - self._firsts[pieces])
        return result.reshape(indexes.shape)[()]

    def __array__(self, dtype=None, copy=None):
        return self[:].astype(dtype or self.dtype, copy=False)

    def tolist(self):
        """All offsets as a list."""
        return self[:].tolist()

    def searchsorted(self, values, side="left", sorter=None):
        """As `np.searchsorted`, for integers."""
        values = np.asarray(values)
        flat = values.ravel() - (side == "left")  # as many offsets are below v as are at most v − 1
        pieces = np.searchsorted(self._begins, flat, side="right") - 1
        result = np.where(pieces < 0, 0, len(self))
        inside = (pieces >= 0) & (flat < self._begins[-1])
        pieces = pieces[inside]
        result[inside] = self._firsts[pieces] + self._counted(pieces, flat[inside])
        return result.reshape(values.shape)[()]

    @abc.abstractmethod
    def _read(self, pieces, indexes):
        """The offsets with these indices in these pieces."""

    @abc.abstractmethod
    def _counted(self, pieces, values):
        """How many offsets of these pieces are at most these values."""


class JoinedOffsets(Offsets):
    """The offsets of several arrays, concatenated.

    Args:
        read: a function from the number of an array to the array; what follows its first `counts[number]` offsets is not used.
        counts, begins: see `Offsets`.
    """

    def __init__(self, read, counts, begins):
        super().__init__(counts, begins)
        self._array = read

    def _read(self, pieces, indexes):
        result = np.empty(len(pieces), "int64")
        for piece, some in by_piece(pieces):
            result[some] = self._array(piece)[indexes[some]] + self._begins[piece]
        return result

    def _counted(self, pieces, values):
        result = np.empty(len(pieces), "int64")
        for piece, some in by_piece(pieces):
            result[some] = np.searchsorted(self._array(piece), values[some] - self._begins[piece], side="right")
        return np.minimum(result, np.diff(self._firsts)[pieces])


class SelectedOffsets(Offsets):
    """Parts of other offsets, as if the tokens between them were not there.

    Args:
        offsets: the other offsets, an array or `Offsets`.
        firsts, stops: index of the first offset of every part, and after its last, arrays; a part may begin after its first,
            with an offset of its own.
        origins: the token at which every part begins.
        begins: see `Offsets`.
    """

    def __init__(self, offsets, firsts, stops, origins, begins):
        super().__init__(stops - firsts, begins)
        self._offsets, self._from = offsets, firsts
        self._origins, self._shifts = origins, self._begins[:-1] - origins

    def _read(self, pieces, indexes):
        offsets = self._offsets[self._from[pieces] + indexes]
        return np.maximum(offsets, self._origins[pieces]) + self._shifts[pieces]

    def _counted(self, pieces, values):
        counts = np.searchsorted(self._offsets, values - self._shifts[pieces], side="right") - self._from[pieces]
        return np.minimum(counts, np.diff(self._firsts)[pieces])
