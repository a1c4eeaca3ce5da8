"""Packed pretraining batches, several documents in a row, as a pure function of corpus, seed, epoch and index."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.pretraining.masking import mask_tokens
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, permuted, uniform_at


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


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """A packed batch: int32 arrays `(batch, seq_len)`."""

    tokens: np.ndarray
    chosen: np.ndarray
    labels: np.ndarray

    sequence_ids: np.ndarray
    """The number of the sequence that a token belongs to, from 1; 0 at padding. See `packing.block_diagonal_mask`."""

    positions: np.ndarray
    """The position of a token in its sequence, from 0."""


class PackedBatches:
    """Batches for the masked-word task alone, whose rows hold several sequences.

    A document is cut into pieces that fill a row and a remainder, which is at a different offset in every pass. Remainders share
    rows; which ones share a row differs between passes, their lengths do not. A pass has every token once.

    Args:
        store: a `TokenCorpus`, or any object with its attributes.
        batch_size: rows per batch; the last rows of a pass are left out if they do not fill one.
        seq_len: length of a row.
        max_predictions: maximum number of positions to predict in a row.
        seed: a whole number.
        masking: see `PretrainingBatches`.
        most_pieces: maximum number of sequences in a row.

    Raises:
        ValueError: a pass does not fill a batch, or the vocabulary lacks a special token.
    """

    def __init__(self, store, batch_size, seq_len, max_predictions, seed=0, masking="token", most_pieces=16):
        self.store, self.batch_size, self.seq_len, self.seed = store, batch_size, seq_len, seed
        self.max_predictions, self.masking = max_predictions, masking
        self.tables = vocabulary_tables(store.vocabulary)
        self._length = seq_len - 2
        self._starts = np.asarray(store.document_starts)
        self._full, self._remainder = np.divmod(np.diff(self._starts), self._length)
        self._full_ends = np.cumsum(self._full)
        histogram = np.bincount(self._remainder, minlength=1)
        # A piece of n tokens takes n + 2 of a row.
        self._plan = packing_plan(np.concatenate([[0, 0, 0], histogram[1:]]), seq_len, most_pieces)
        self._kind_ends = np.cumsum(self._plan.counts)
        self._by_remainder = np.argsort(self._remainder, kind="stable")
        self._remainder_counts = histogram
        self._remainder_begins = np.cumsum(histogram) - histogram
        self.rows = int(self._full.sum() + self._plan.counts.sum())
        if self.rows < batch_size:
            raise ValueError(f"an epoch must have at least one batch of {batch_size}; a pass has {self.rows} rows.")

    def __len__(self):
        return self.rows // self.batch_size

    def batch(self, epoch, index):
        """Batch `index` of an epoch, a `PackedBatch`, regardless of earlier calls."""
        positions_in_pass = index * self.batch_size + np.arange(self.batch_size)
        row = permuted(keys(self.seed, epoch, 0), self.rows, positions_in_pass)
        full_rows = int(self._full.sum())
        starts = np.zeros((self.batch_size, self._plan.lengths.shape[1]), "int64")
        lengths = np.zeros_like(starts)
        full, shared = np.flatnonzero(row < full_rows), np.flatnonzero(row >= full_rows)
        starts[full, 0], lengths[full, 0] = self._full_piece(epoch, row[full]), self._length
        starts[shared], lengths[shared] = self._remainders(epoch, row[shared] - full_rows)
        labels, sequence_ids, positions, content = lay_out_packed(self.store, starts, lengths, self.seq_len, self.tables)
        row_keys = keys(self.seed, epoch, positions_in_pass)
        tokens, chosen = mask_tokens(row_keys, labels, content, self.tables, self.max_predictions, unit=self.masking)
        return PackedBatch(tokens, chosen, labels, sequence_ids, positions)

    def _full_piece(self, epoch, number):
        document = np.searchsorted(self._full_ends, number, side="right")
        index = number - (self._full_ends[document] - self._full[document])
        after_remainder = index >= self._pieces_before_remainder(epoch, document)
        return self._starts[document] + index * self._length + after_remainder * self._remainder[document]

    def _remainders(self, epoch, number):
        kind = np.searchsorted(self._kind_ends, number, side="right")
        instance = number - (self._kind_ends[kind] - self._plan.counts[kind])
        sizes = np.maximum(self._plan.lengths[kind] - 2, 0)
        # The pieces of each length have an order of their own.
        count = np.where(sizes > 0, self._remainder_counts[sizes], 1)
        piece = np.where(sizes > 0, self._plan.firsts[kind] + instance[:, None], 0)
        member = permuted(_other_stream(keys(self.seed, epoch, sizes)), count, piece)
        document = self._by_remainder[np.where(sizes > 0, self._remainder_begins[sizes] + member, 0)]
        return self._starts[document] + self._pieces_before_remainder(epoch, document) * self._length, sizes

    def _pieces_before_remainder(self, epoch, document):
        """The number of full pieces before the remainder of a document."""
        return below(uniform_at(keys(self.seed, epoch, document), 0, Stream.PHASE), self._full[document] + 1)


def _other_stream(of_length):
    """Keys for the orders of the pieces, which differ from that of the rows."""
    return of_length ^ np.uint64(int(Stream.MEMBERS) << 56)
