"""Packed pretraining batches as a pure function of corpus, seed, epoch and index."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.masking import mask_tokens
from keras_bert_rebuild.data.packing import lay_out_packed, packing_plan
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, permuted, uniform_at
from keras_bert_rebuild.data.vocabulary_tables import vocabulary_tables


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
