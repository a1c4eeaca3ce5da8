"""Sequence packing: which pieces of documents share the rows of a pass, and the tokens of these rows."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.pretraining.examples import document_sizes
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, permuted, uniform_at

# Special tokens around every piece: [CLS] and [SEP].
SPECIAL = 2


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


def packing_plan(histogram, capacity):
    """Best-fit decreasing: pieces are placed longest first, each in the fullest row that still has room for it.

    Args:
        histogram: the number of pieces of every length, `(longest + 1,)`; length 0 is ignored.
        capacity: the length of a row.

    Returns:
        A `PackingPlan`.

    Reference: Krell et al., 2021, "Efficient sequence packing without cross-contamination", section 3.2
    (https://arxiv.org/abs/2107.02027), on the histogram, so that the time does not grow with the number of pieces.
    """
    done, by_room = [], {}

    def put(row, count):
        room = capacity - sum(row)
        if count:
            (by_room.setdefault(room, []) if room else done).append((row, count))

    for length in range(len(histogram) - 1, 0, -1):
        left = int(histogram[length])
        while left:
            room = min((room for room in by_room if room >= length and by_room[room]), default=None)
            if room is None:
                # A new row gets as many pieces of this length as fit.
                copies = min(capacity // length, left)
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


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of documents in rows."""

    keys: np.ndarray
    """The keys of the rows' random numbers, uint64 `(rows,)`."""

    starts: np.ndarray
    """Where the pieces start in the corpus, `(rows, pieces)`."""

    lengths: np.ndarray
    """Their numbers of tokens, `(rows, pieces)`, padded with 0."""


class PackedRows:
    """The packed rows of every pass over a corpus.

    A document is divided into pieces that fill a row and a remainder, whose offset differs between passes. Remainders share rows;
    which ones share a row differs between passes, their lengths do not. A pass contains every token once.

    Args:
        store: a `TokenCorpus`, or any object with its attributes.
        seq_len: length of a row.
        seed: an integer.

    Raises:
        ValueError: the corpus has no tokens, or a document has none.
    """

    def __init__(self, store, seq_len, seed=0):
        self.seed, self._length = seed, seq_len - SPECIAL
        self._starts = np.asarray(store.document_starts)
        self._full, self._remainder = np.divmod(document_sizes(store), self._length)
        self._full_ends = np.cumsum(self._full)
        histogram = np.bincount(self._remainder, minlength=1)
        # A piece of n tokens takes n + 2 columns of a row.
        self._plan = packing_plan(np.concatenate([[0] * (SPECIAL + 1), histogram[1:]]), seq_len)
        self._kind_ends = np.cumsum(self._plan.counts)
        self._by_remainder = np.argsort(self._remainder, kind="stable")
        self._remainder_counts = histogram
        self._remainder_begins = np.cumsum(histogram) - histogram
        self._full_rows = int(self._full.sum())
        self._rows = self._full_rows + int(self._plan.counts.sum())

    def __len__(self):
        return self._rows

    def at(self, positions):
        """The `Pieces` at positions in the endless sequence of passes.

        Args:
            positions: integers `(rows,)` from 0; position p is in pass p // len(self).
        """
        passes, indexes = np.divmod(np.asarray(positions, "int64"), self._rows)
        row = permuted(keys(self.seed, passes, 0), self._rows, indexes)
        starts = np.zeros((len(row), self._plan.lengths.shape[1]), "int64")
        lengths = np.zeros_like(starts)
        full, shared = np.flatnonzero(row < self._full_rows), np.flatnonzero(row >= self._full_rows)
        starts[full, 0], lengths[full, 0] = self._full_piece(passes[full], row[full]), self._length
        starts[shared], lengths[shared] = self._remainders(passes[shared], row[shared] - self._full_rows)
        return Pieces(keys(self.seed, passes, indexes), starts, lengths)

    def _full_piece(self, passes, number):
        document = np.searchsorted(self._full_ends, number, side="right")
        index = number - (self._full_ends[document] - self._full[document])
        after_remainder = index >= self._pieces_before_remainder(passes, document)
        return self._starts[document] + index * self._length + after_remainder * self._remainder[document]

    def _remainders(self, passes, number):
        kind = np.searchsorted(self._kind_ends, number, side="right")
        instance = number - (self._kind_ends[kind] - self._plan.counts[kind])
        sizes = np.maximum(self._plan.lengths[kind] - SPECIAL, 0)
        # The pieces of each length have their own order.
        count = np.where(sizes > 0, self._remainder_counts[sizes], 1)
        piece = np.where(sizes > 0, self._plan.firsts[kind] + instance[:, None], 0)
        member = permuted(_other_stream(keys(self.seed, passes[:, None], sizes)), count, piece)
        document = self._by_remainder[np.where(sizes > 0, self._remainder_begins[sizes] + member, 0)]
        return self._starts[document] + self._pieces_before_remainder(passes[:, None], document) * self._length, sizes

    def _pieces_before_remainder(self, passes, document):
        """The number of full pieces of a document before its remainder."""
        return below(uniform_at(keys(self.seed, passes, document), 0, Stream.PHASE), self._full[document] + 1)


def _other_stream(of_length):
    """Keys for the order of the pieces, independent of that of the rows."""
    return of_length ^ np.uint64(int(Stream.MEMBERS) << 56)


def halved(pieces, rate, length):
    """Split some of the rows with one piece into two pieces, so that a model also sees short inputs.

    The last two tokens of the row are dropped, to make room for the special tokens of the second piece.

    Args:
        pieces: `Pieces`.
        rate: fraction of the rows with a single, full piece to split.
        length: length of a piece that fills a row; if it is below 4, none is split.

    Returns:
        `Pieces`, with at least two columns if the rate is above 0.
    """
    if not rate or length < SPECIAL + 2:
        return pieces
    starts, lengths = (np.pad(x, [(0, 0), (0, max(0, 2 - x.shape[1]))]) for x in (pieces.starts, pieces.lengths))
    cut = (lengths[:, 0] == length) & (uniform_at(pieces.keys, 0, Stream.PAIR) < rate)
    first = 1 + below(uniform_at(pieces.keys, 1, Stream.PAIR), length - SPECIAL - 1)
    lengths[:, 0] = np.where(cut, first, lengths[:, 0])
    starts[:, 1] = np.where(cut, starts[:, 0] + first, starts[:, 1])
    lengths[:, 1] = np.where(cut, length - SPECIAL - first, lengths[:, 1])
    return Pieces(pieces.keys, starts, lengths)


def lay_out_packed(store, pieces, seq_len, tables):
    """Concatenate the pieces of each row, each as `[CLS] piece [SEP]`.

    Args:
        store: a corpus.
        pieces: `Pieces` that fit.
        seq_len: length of the rows.
        tables: the `VocabularyTables` of the corpus.

    Returns:
        Token ids, int32; the column, from 1, in which each token's sequence begins, 0 at padding, int32; and True at tokens of the
        corpus: all `(rows, seq_len)`.
    """
    sizes = np.where(pieces.lengths > 0, pieces.lengths + SPECIAL, 0)
    ends = np.cumsum(sizes, axis=1)
    begins = ends - sizes
    columns = np.arange(seq_len)
    marks = np.zeros((len(sizes), seq_len + 1), "int32")
    np.put_along_axis(marks, np.where(sizes > 0, begins, seq_len), 1, axis=1)
    number = np.cumsum(marks[:, :seq_len], axis=1) - 1
    real = columns < ends[:, -1:]
    begin = np.take_along_axis(begins, number, axis=1)
    position = columns - begin
    content = real & (position > 0) & (position <= np.take_along_axis(pieces.lengths, number, axis=1))
    ids = np.where(real, np.where(position == 0, tables.cls_id, tables.sep_id), tables.pad_id).astype("int32")
    ids[content] = store.ids_at((np.take_along_axis(pieces.starts, number, axis=1) + position - 1)[content])
    return ids, np.where(real, begin + 1, 0).astype("int32"), content


def sequence_lengths(numbers):
    """The length of every sequence of packed rows, `(sequences,)`.

    Args:
        numbers: the sequence numbers from `lay_out_packed`.
    """
    rows = np.arange(len(numbers))[:, None] * (numbers.shape[1] + 1)
    return np.unique((numbers + rows)[numbers > 0], return_counts=True)[1]
