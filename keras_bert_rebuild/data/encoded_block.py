"""Rows that were encoded together, from which batches are chosen without an object for each row."""

import numpy as np


class EncodedBlock:
    """Rows of texts in one array, a block of `Buckets.stream_blocks`.

    Args:
        ids: token ids `(rows, longest)`; a row begins in the first column, and after it is padding.
        segments: their segments `(rows, longest)`.
        sizes: the number of tokens of every row `(rows,)`.
    """

    def __init__(self, ids, segments, sizes):
        self.ids, self.segments, self.sizes = ids, segments, sizes

    @classmethod
    def of_row(cls, ids, segments):
        """A block of one row."""
        return cls(np.asarray(ids)[None], np.asarray(segments)[None], np.array([len(ids)]))

    @staticmethod
    def batch(parts):
        """The `EncodedRows` of pairs of a block and the indices of rows in it."""
        return EncodedRows(parts)

    def room_for(self, answers):
        """An array for the results of all rows, of the dtype and shape of these."""
        first = np.asarray(answers[0])
        return np.empty((len(self.sizes), *first.shape), first.dtype)


class EncodedRows:
    """Rows of several blocks as a batch: pairs `(ids, segments)` for those who iterate, arrays for those who pad.

    Args:
        parts: pairs of an `EncodedBlock` and the indices of rows in it.
    """

    def __init__(self, parts):
        self.parts = parts
        self.sizes = np.concatenate([block.sizes[indices] for block, indices in parts])

    def __len__(self):
        return len(self.sizes)

    def __iter__(self):
        for block, indices in self.parts:
            for i in indices:
                yield block.ids[i, : block.sizes[i]], block.segments[i, : block.sizes[i]]

    def arrays(self, names, length, pad_id):
        """The arrays of the inputs of a model, a list of `(rows, length)`, int32.

        Args:
            names: names of inputs, some of `Input-Token`, `Input-Segment` and `Input-Mask`.
            length: the length to pad to, at least that of every row.
            pad_id: the id of padding.
        """
        made = {
            "Input-Token": lambda: self._gathered("ids", length, pad_id),
            "Input-Segment": lambda: self._gathered("segments", length, 0),
            "Input-Mask": lambda: (np.arange(length) < self.sizes[:, None]).astype("int32"),
        }
        return [made[name]() for name in names]

    def _gathered(self, field, length, padding):
        rows, first = np.full((len(self), length), padding, "int32"), 0
        for block, indices in self.parts:
            values = getattr(block, field)[:, :length].take(indices, axis=0)
            rows[first : first + len(indices), : values.shape[1]] = values
            first += len(indices)
        return rows
