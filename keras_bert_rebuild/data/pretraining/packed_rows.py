"""Packed rows of pieces of documents or of pairs of segments, and the tokens of rows of several sequences."""

import functools
from dataclasses import dataclass, fields

import numpy as np

from keras_bert_rebuild.data.corpora.mixed import examples_of
from keras_bert_rebuild.data.packing import packed_places, packing_plan
from keras_bert_rebuild.data.pretraining.segment_pairs import Segments
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, permuted, uniform_at
from keras_bert_rebuild.layers.masks import most_sequences

# Special tokens around every piece: [CLS] and [SEP].
SPECIAL = 2


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
    """The pieces in the rows of every pass over documents.

    A document is divided into pieces that fill a row and a remainder, whose offset differs between passes. Remainders share rows;
    which ones share a row differs between passes, their lengths do not. A pass contains every token once.

    Args:
        documents: `Documents`.
        seq_len: length of a row.
        seed: an integer.
    """

    def __init__(self, documents, seq_len, seed=0):
        self.seed, self._length = seed, seq_len - SPECIAL
        self._starts = documents.starts
        self._full, self._remainder = np.divmod(documents.sizes, self._length)
        self._full_ends = np.cumsum(self._full)
        histogram = np.bincount(self._remainder, minlength=1)
        # A piece of n tokens takes n + 2 columns of a row.
        self._plan = packing_plan(np.concatenate([[0] * (SPECIAL + 1), histogram[1:]]), seq_len)
        self._kind_ends = np.cumsum(self._plan.counts)
        self._remainder_counts = histogram
        self._remainder_begins = np.cumsum(histogram) - histogram
        self._full_rows = int(self._full.sum())
        self._rows = self._full_rows + int(self._plan.counts.sum())

    def __len__(self):
        return self._rows

    @functools.cached_property
    def _by_remainder(self):
        return np.argsort(self._remainder, kind="stable")

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


class PackedPieces:
    """The packed rows of every pass over a corpus of one or more parts, as single segments.

    Args:
        store: a corpus, or a `MixedCorpus`.
        seq_len: length of a row.
        seed: an integer.
        short_seq_prob: fraction of the full rows that are split, see `halved`.
    """

    def __init__(self, store, seq_len, seed=0, short_seq_prob=0.1):
        self._rows = examples_of(store, lambda documents, of_part: PackedRows(documents, seq_len, of_part), seed)
        self._length, self._short_seq_prob = seq_len - SPECIAL, short_seq_prob

    def __len__(self):
        return len(self._rows)

    def at(self, positions):
        """The keys of rows, uint64 `(rows,)`, and their `Segments`, arrays `(rows, sequences)`: see `PackedRows.at`."""
        pieces = halved(self._rows.at(positions), self._short_seq_prob, self._length)
        nothing = np.zeros_like(pieces.starts)
        return pieces.keys, Segments(pieces.starts, pieces.lengths, nothing, nothing, nothing)


def lay_out_packed(store, segments, seq_len, tables, pairs=False):
    """Concatenate the sequences of each row, each `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    Args:
        store: a corpus.
        segments: `Segments` that fit, arrays `(rows, sequences)`; those without a first segment are none.
        seq_len: length of the rows.
        tables: the `VocabularyTables` of the corpus.
        pairs: whether there are second segments.

    Returns:
        Token ids, int32; segment ids, 1 at the second segment and its `[SEP]`, int32; the column, from 1, in which each token's
        sequence begins, 0 at padding, int32; and True at tokens of the corpus: all `(rows, seq_len)`.
    """
    special = SPECIAL + pairs
    sizes = np.where(segments.first_lengths > 0, segments.first_lengths + segments.second_lengths + special, 0)
    ends = np.cumsum(sizes, axis=1)
    begins = ends - sizes
    columns = np.arange(seq_len)
    marks = np.zeros((len(sizes), seq_len + 1), "int32")
    np.put_along_axis(marks, np.where(sizes > 0, begins, seq_len), 1, axis=1)
    number = np.cumsum(marks[:, :seq_len], axis=1) - 1

    def by_sequence(values):
        return np.take_along_axis(values, number, axis=1)

    real = columns < ends[:, -1:]
    begin, first_end = by_sequence(begins), by_sequence(segments.first_lengths) + 1
    position = columns - begin
    after_first = real & (position > first_end)
    content = real & (position > 0) & (position != first_end)
    source = by_sequence(segments.first_starts) + position - 1
    if pairs:
        content &= position <= first_end + by_sequence(segments.second_lengths)
        source = np.where(after_first, by_sequence(segments.second_starts) + position - first_end - 1, source)
    ids = np.where(real, np.where(position == 0, tables.cls_id, tables.sep_id), tables.pad_id).astype("int32")
    ids[content] = store.ids_at(source[content])
    return ids, after_first.astype("int32"), np.where(real, begin + 1, 0).astype("int32"), content


def sequence_lengths(numbers):
    """The length of every sequence of packed rows, `(sequences,)`.

    Args:
        numbers: the sequence numbers from `lay_out_packed`.
    """
    rows = np.arange(len(numbers))[:, None] * (numbers.shape[1] + 1)
    return np.unique((numbers + rows)[numbers > 0], return_counts=True)[1]


# Pairs of a window, and how many of the following ones it may take if its own leave room.
WINDOW, MORE = 1024, 64

# Special tokens around every pair: [CLS], and a [SEP] after each segment.
PAIR_SPECIAL = 3

_FIELDS = [field.name for field in fields(Segments)]


class PackedPairs:
    """The packed rows of every pass over the pairs of a corpus.

    The length of a pair is known only when it has been made, so no plan can be made for a whole pass. Window w of the endless
    sequence begins with pair 1,024 · w, and all windows have as many rows as the first one needs for its pairs. A window takes as
    many consecutive pairs as fit into these rows: so a few at its end are left out, or are also the first ones of the next window.
    Hence row n is a function of n.

    Args:
        pairs: `SegmentExamples` of pairs.
        seq_len: length of a row.
    """

    def __init__(self, pairs, seq_len):
        self.pairs, self._seq_len, self._most = pairs, seq_len, most_sequences(seq_len)
        _, segments = pairs.at(np.arange(WINDOW))
        self._rows = packed_places(_sizes(segments), seq_len, self._most)[-1]
        self._made = None, None

    def __len__(self):
        return max(1, round(len(self.pairs) * self._rows / WINDOW))

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
            keys, segments = self.pairs.at(number * WINDOW + np.arange(WINDOW + MORE))
            members = self._members(_sizes(segments))
            order = np.argsort(uniform_at(keys[0], np.arange(len(members)), Stream.MEMBERS), kind="stable")
            values = np.stack([getattr(segments, name) for name in _FIELDS])
            self._made = made = number, (keys, values, members[order])
        return made[1]

    def _members(self, sizes):
        """Which pairs of a window each of its rows holds."""
        fits, too_many = min(self._rows, len(sizes)), len(sizes) + 1
        packed = packed_places(sizes[:fits], self._seq_len, self._most)
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            attempt = packed_places(sizes[:middle], self._seq_len, self._most)
            if attempt[-1] <= self._rows:
                fits, packed = middle, attempt
            else:
                too_many = middle
        rows, _, slots, count = packed
        members = np.full((self._rows, self._most), -1)
        members[rows, slots] = np.arange(fits)
        for row in range(count, self._rows):  # none may be empty
            crowded = int(np.argmax((members >= 0).sum(axis=1)))
            last = (members[crowded] >= 0).sum() - 1
            members[row, 0], members[crowded, last] = members[crowded, last], -1
        return members


def _sizes(segments):
    return segments.first_lengths + segments.second_lengths + PAIR_SPECIAL
