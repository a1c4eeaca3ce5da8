"""Several documents in one row, so that hardly any padding is left."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class PackingPlan:
    """Kinds of rows, by the lengths of the pieces that fill them, and the number of rows of each kind."""

    lengths: np.ndarray
    """The lengths of the pieces of each kind, `(kinds, pieces)`, 0 after the last piece."""

    counts: np.ndarray
    """Rows of a kind, `(kinds,)`."""

    firsts: np.ndarray
    """The number of each piece of the first row of a kind among the pieces of its length, `(kinds, pieces)`; it is one higher in
    each further row."""


def packing_plan(histogram, capacity, most_pieces=16):
    """Fill rows with pieces, longest first, each into the fullest row that still holds it.

    Args:
        histogram: the number of pieces of every length, `(longest + 1,)`; those of length 0 do not count.
        capacity: the length of a row.
        most_pieces: maximum number of pieces in a row.

    Returns:
        A `PackingPlan`.

    Reference: Krell et al., 2021, "Efficient sequence packing without cross-contamination", section 3.2
    (https://arxiv.org/abs/2107.02027), on the histogram, so that the time does not grow with the number of pieces.
    """
    done, by_room = [], {}

    def put(row, count):
        room = capacity - sum(row)
        if count:
            (by_room.setdefault(room, []) if room and len(row) < most_pieces else done).append((row, count))

    for length in range(len(histogram) - 1, 0, -1):
        left = int(histogram[length])
        while left:
            room = min((room for room in by_room if room >= length and by_room[room]), default=None)
            if room is None:
                # A new row takes as many pieces of this length as fit.
                copies = min(capacity // length, most_pieces, left)
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


def block_diagonal_mask(sequence_ids):
    """The attention mask of packed rows: every token attends to those of its own sequence.

    Args:
        sequence_ids: the number of the sequence of every token, `(batch, length)`, 0 at padding.

    Returns:
        True where a query may attend to a key, `(batch, 1, length, length)`. Padding attends to padding, so that every softmax has
        at least one key.
    """
    return sequence_ids[:, None, :, None] == sequence_ids[:, None, None, :]


def lay_out_packed(store, starts, lengths, seq_len, tables):
    """Concatenate pieces, each as `[CLS] piece [SEP]`.

    Args:
        store: a corpus.
        starts: where the pieces start in the corpus, `(rows, pieces)`.
        lengths: their numbers of tokens, `(rows, pieces)`, 0 after the last piece of a row.
        seq_len: length of the rows.
        tables: the `VocabularyTables` of the corpus.

    Returns:
        Token ids; the number of the sequence from 1, 0 at padding; the position in its sequence from 0, 0 at padding: int32; and
        True at tokens of the corpus. All are `(rows, seq_len)`.
    """
    sizes = np.where(lengths > 0, lengths + 2, 0)
    ends = np.cumsum(sizes, axis=1)
    begins = ends - sizes
    columns = np.arange(seq_len)
    marks = np.zeros((len(starts), seq_len + 1), "int32")
    np.put_along_axis(marks, np.where(sizes > 0, begins, seq_len), 1, axis=1)
    number = np.cumsum(marks[:, :seq_len], axis=1)
    real = columns < ends[:, -1:]
    position = np.where(real, columns - np.take_along_axis(begins, number - 1, axis=1), 0)
    last = np.take_along_axis(lengths, number - 1, axis=1) + 1
    content = real & (position > 0) & (position < last)
    ids = np.where(real, np.where(position == 0, tables.cls_id, tables.sep_id), tables.pad_id).astype("int32")
    ids[content] = store.ids_at((np.take_along_axis(starts, number - 1, axis=1) + position - 1)[content])
    return ids, (number * real).astype("int32"), position.astype("int32"), content
