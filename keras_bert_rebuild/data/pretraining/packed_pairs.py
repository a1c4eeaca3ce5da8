"""Packed rows of pairs of segments."""

from dataclasses import fields

import numpy as np

from keras_bert_rebuild.data.packing import packed_places
from keras_bert_rebuild.data.pretraining.segment_pairs import Segments
from keras_bert_rebuild.data.random_numbers import Stream, uniform_at
from keras_bert_rebuild.layers.masks import most_sequences

# Pairs of a window, and how many of the following ones it may take if its own leave room.
WINDOW, MORE = 1024, 64

# Special tokens around every pair: [CLS], and a [SEP] after each segment.
SPECIAL = 3

_FIELDS = [field.name for field in fields(Segments)]


class PackedPairs:
    """The packed rows of every pass over the pairs of a corpus.

    The length of a pair is known only when it has been made, so no plan can be made for a whole pass. Window w of the endless
    sequence begins with pair 1,024 · w, and all windows have as many rows as the first one needs for its pairs. A window takes as
    many consecutive pairs as fit into these rows: so a few at its end are left out, or are also the first ones of the next window.
    Hence row n is a function of n.

    Args:
        examples: `SegmentExamples` of pairs.
        seq_len: length of a row.
    """

    def __init__(self, examples, seq_len):
        self._examples, self._seq_len, self._most = examples, seq_len, most_sequences(seq_len)
        _, segments = examples.at(np.arange(WINDOW))
        self._rows = packed_places(_sizes(segments), seq_len, self._most)[-1]
        self._made = None, None

    def __len__(self):
        return max(1, round(len(self._examples) * self._rows / WINDOW))

    def at(self, positions):
        """The rows at positions in the endless sequence of rows.

        Args:
            positions: integers `(rows,)` from 0, in few windows.

        Returns:
            The keys of the rows' random numbers, uint64 `(rows,)`, and the `Segments` of their pairs, arrays `(rows, sequences)`:
            as many as `most_sequences`, the last ones of length 0.
        """
        windows, rows = np.divmod(np.asarray(positions, "int64"), self._rows)
        keys, values = np.empty(len(rows), "uint64"), np.empty((len(_FIELDS), len(rows), self._most), "int64")
        for window in np.unique(windows):
            here = np.flatnonzero(windows == window)
            keys_of, values_of, members = self._window(int(window))
            members = members[rows[here]]
            keys[here] = keys_of[members[:, 0]]
            values[:, here] = np.where(members >= 0, values_of[:, members], 0)
        return keys, Segments(*values)

    def _window(self, number):
        """The pairs of a window: their keys, their segments as one array `(fields, pairs)`, and which of them each row holds,
        `(rows, sequences)`, -1 for none."""
        made = self._made  # another thread may be in another window
        if made[0] != number:
            keys, segments = self._examples.at(number * WINDOW + np.arange(WINDOW + MORE))
            members = self._members(_sizes(segments))
            order = np.argsort(uniform_at(keys[0], np.arange(len(members)), Stream.MEMBERS), kind="stable")
            values = np.stack([getattr(segments, name) for name in _FIELDS])
            self._made = made = number, (keys, values, members[order])
        return made[1]

    def _members(self, sizes):
        """Which pairs of a window each of its rows holds."""
        fits, too_many = min(self._rows, len(sizes)), len(sizes) + 1
        places = packed_places(sizes[:fits], self._seq_len, self._most)
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            found = packed_places(sizes[:middle], self._seq_len, self._most)
            if found[-1] <= self._rows:
                fits, places = middle, found
            else:
                too_many = middle
        rows, _, slots, count = places
        members = np.full((self._rows, self._most), -1)
        members[rows, slots] = np.arange(fits)
        for row in range(count, self._rows):  # none may be empty
            crowded = int(np.argmax((members >= 0).sum(axis=1)))
            last = (members[crowded] >= 0).sum() - 1
            members[row, 0], members[crowded, last] = members[crowded, last], -1
        return members


def _sizes(segments):
    return segments.first_lengths + segments.second_lengths + SPECIAL
