"""The examples of an epoch before masking: spans of documents in random order, as one segment or two, and as rows of token ids."""

import functools
from dataclasses import dataclass, replace

import numpy as np

from keras_bert_rebuild.data.corpora.mixed import examples_of
from keras_bert_rebuild.data.pretraining.segment_pairs import OTHER_SPAN, next_sentence_pairs, sentence_order_pairs, single_segments
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, permuted, uniform_at


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans of the corpus, one per example, and the keys of their random numbers: arrays `(examples,)`."""

    keys: np.ndarray
    """uint64."""

    passes: np.ndarray
    """The index of the pass over the corpus."""

    documents: np.ndarray
    """The index of the document."""

    document_starts: np.ndarray
    """Position of the first token of the document."""

    document_ends: np.ndarray
    """Position after its last token."""

    starts: np.ndarray
    """Position of the first token in the corpus."""

    ends: np.ndarray
    """Position after the last token."""


class Examples:
    """The spans that every pass over documents is divided into.

    A document of at most `length` tokens is one span. A longer one is divided every `length` tokens from an offset drawn for every
    pass, so that its first and last span may be shorter. A pass contains every token once, and all passes have the same number of
    spans, the number that most offsets give; only these offsets, at least half of all, are drawn.

    Args:
        documents: `Documents`.
        length: maximum number of tokens of a span.
        seed: an integer.
    """

    def __init__(self, documents, length, seed=0):
        sizes = documents.sizes
        full, rest = np.divmod(sizes, length)
        # With q full lengths and remainder r, `length − r + 1` offsets give q + 1 spans, and r − 1 offsets give q + 2.
        counts = np.where(sizes <= length, 1, full + 1 + (2 * rest > length + 2))
        self.length = length
        self.seed = seed
        self._documents = documents
        self._ends = np.cumsum(counts)
        self._text_ends = np.cumsum(np.bincount(documents.texts, counts)).astype("int64")

    def __len__(self):
        return int(self._ends[-1])

    @functools.cached_property
    def _shares(self):
        return _shares(np.diff(self._text_ends, prepend=0))

    def at(self, positions):
        """The spans at positions in the endless sequence of passes.

        Args:
            positions: integers `(examples,)` from 0; position p is in pass p // len(self).

        Returns:
            `Spans`.
        """
        passes, indexes = np.divmod(np.asarray(positions, "int64"), len(self))
        number = permuted(keys(self.seed, passes, 0), len(self), indexes)
        return self._spans(keys(self.seed, passes, indexes), passes, number)

    def from_other_documents(self, spans, draws):
        """For every span, a span of another document in the same pass, such that over all spans each is drawn equally often.

        Drawn uniformly from the other documents, spans of a large document would be drawn less often than they occur; this remains
        so for a document with more than half of the tokens. If the corpus has `texts`, like `SomeDocuments`, documents with the
        same text index are parts of one text and not paired with each other.

        Args:
            spans: `Spans` of a corpus of at least two documents.
            draws: numbers in [0, 1), `(examples,)`.

        Returns:
            `Spans` with the keys of the given ones.
        """
        own = self._documents.texts[spans.documents]
        own_low, own_high = self._shares[own], self._shares[own + 1]
        point = draws * (1 - (own_high - own_low))
        point = np.where(point >= own_low, point + (own_high - own_low), point)
        text = np.minimum(np.searchsorted(self._shares, point, side="right") - 1, len(self._text_ends) - 1)
        low, high = self._shares[text], self._shares[text + 1]
        first = np.where(text > 0, self._text_ends[text - 1], 0)
        count = self._text_ends[text] - first
        within = np.minimum(below((point - low) / (high - low), count), count - 1)
        return self._spans(spans.keys, spans.passes, first + within)

    def _spans(self, keys_of, passes, number):
        """The spans with these indices; index 0 is the first span of the first document."""
        documents = np.searchsorted(self._ends, number, side="right")
        index = number - np.where(documents > 0, self._ends[documents - 1], 0)
        starts, sizes = self._documents.starts[documents], self._documents.sizes[documents]
        low = index * self.length - self._shift(passes, documents, sizes)
        ends = starts + np.minimum(low + self.length, sizes)
        return Spans(keys_of, passes, documents, starts, starts + sizes, starts + np.maximum(low, 0), ends)

    def _shift(self, passes, documents, sizes):
        """How many tokens shorter the first span is than the others."""
        rest = sizes % self.length
        late = 2 * rest > self.length + 2
        first = np.where(late, self.length - rest + 1, rest == 0)
        count = np.where(late, rest - 1, self.length - rest + np.where(rest == 0, -1, 1))
        draws = uniform_at(keys(self.seed, passes, documents), 0, Stream.PHASE)
        return np.where(sizes <= self.length, 0, first + below(draws, count))


def shortened(spans, rate, length):
    """Shorten some of the spans to a random length, so that a model also sees short inputs.

    Args:
        spans: `Spans`.
        rate: fraction of the spans to shorten, in [0, 1].
        length: the new lengths are drawn uniformly from 2 to this one.

    Returns:
        The spans, and the maximum length of each example, `(examples,)`: `length` if it was not shortened.

    Reference: `short_seq_prob` in `create_pretraining_data.py` of google-research/bert.
    """
    short = uniform_at(spans.keys, 0, Stream.PAIR) < rate
    targets = np.where(short, 2 + below(uniform_at(spans.keys, 1, Stream.PAIR), length - 1), length)
    return replace(spans, ends=np.minimum(spans.ends, spans.starts + targets)), targets


def _shares(counts):
    """The boundaries of the probabilities with which other texts are drawn, from 0 to 1, `(texts + 1,)`.

    For a span of text u, text t is drawn with probability `w_t / (1 − w_u)`. Over all spans, the probability of a text equals the
    fraction `f` of all spans that it has if `w · (1 − w)` is proportional to `f`; the factor is chosen such that the `w` sum to 1.
    """
    sizes, number = np.unique(counts / counts.sum(), return_counts=True)

    def shares(proportion, largest_above_half):
        roots = np.sqrt(np.maximum(1 - 4 * sizes / proportion, 0))
        weights = (1 - roots) / 2
        if largest_above_half:
            weights[-1] = (1 + roots[-1]) / 2
        return weights

    low, high = 4 * sizes[-1], 1e9
    above = number[-1] == 1 and (number * shares(low, False)).sum() < 1
    for _ in range(100):
        middle = np.sqrt(low * high)
        less = (number * shares(middle, above)).sum() < 1
        low, high = (middle, high) if less == above else (low, middle)
    weights = shares(low, above)[np.searchsorted(sizes, counts / counts.sum())]
    return np.concatenate([[0.0], np.cumsum(weights / weights.sum())])


def lay_out(store, segments, seq_len, tables, pairs=True):
    """Place segments between special tokens: `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` for single segments.

    Args:
        store: a corpus.
        segments: `Segments` that fit.
        seq_len: length of the rows.
        tables: the `VocabularyTables` of the corpus.
        pairs: whether there are second segments.

    Returns:
        Token ids, int32; segment ids, 1 at the second segment and its `[SEP]`, int32; and True at tokens of the corpus: all
        `(examples, seq_len)`.
    """
    columns = np.arange(seq_len)
    first_end = segments.first_lengths[:, None] + 1  # column of the [SEP]
    last_end = first_end + 1 + segments.second_lengths[:, None] if pairs else first_end
    after_first = columns > first_end
    content = (columns < last_end) & (columns != first_end)
    content[:, 0] = False
    first_shift, second_shift = segments.first_starts[:, None] - 1, segments.second_starts[:, None] - first_end - 1
    positions = columns + np.where(after_first, second_shift, first_shift)
    ids = np.full(content.shape, tables.pad_id, "int32")
    ids[content] = store.ids_at(positions[content])
    ids[:, 0] = tables.cls_id
    for end in (first_end, last_end):
        np.put_along_axis(ids, end, tables.sep_id, axis=1)
    return ids, (after_first & (columns <= last_end)).astype("int32"), content


class SegmentExamples:
    """The examples of every pass over a corpus.

    Args:
        store: a `TokenCorpus`, a `MixedCorpus`, or any object with the attributes of one.
        tables: the `VocabularyTables` of the corpus.
        length: maximum number of tokens of an example, without special tokens.
        seed: an integer.
        next_sentence, random_next_rate, short_seq_prob: as for `PretrainingBatches`.
    """

    def __init__(self, store, tables, length, seed=0, next_sentence="nsp", random_next_rate=0.5, short_seq_prob=0.1):
        self.next_sentence = next_sentence
        self._store, self._tables, self._length = store, tables, length
        self._random_next_rate, self._short_seq_prob = random_next_rate, short_seq_prob
        self._spans = examples_of(store, lambda documents, of_part: Examples(documents, length, of_part), seed)

    def __len__(self):
        return len(self._spans)

    def at(self, positions):
        """The examples at positions in the endless sequence of passes.

        Args:
            positions: integers `(examples,)` from 0; position p is in pass p // len(self).

        Returns:
            The keys of their random numbers, uint64 `(examples,)`, and their `Segments`.
        """
        spans, targets = shortened(self._spans.at(positions), self._short_seq_prob, self._length)
        if self.next_sentence == "nsp":
            random = self._spans.from_other_documents(spans, uniform_at(spans.keys, OTHER_SPAN, Stream.PAIR))
            segments = next_sentence_pairs(self._store, self._tables, spans, random, targets, self._random_next_rate)
        elif self.next_sentence == "sop":
            segments = sentence_order_pairs(self._store, self._tables, spans, targets, self._random_next_rate)
        else:
            segments = single_segments(spans)
        return spans.keys, segments
