"""The examples of a pass over a corpus: spans of documents, in random order."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.random_numbers import Stream, below, keys, permuted, uniform_at


@dataclass(frozen=True, eq=False)
class Spans:
    """Stretches of the corpus, one an example, and the keys of their draws: arrays `(examples,)`."""

    keys: np.ndarray
    """uint64."""

    documents: np.ndarray
    """The number of the document."""

    starts: np.ndarray
    """The first token's position in the corpus."""

    ends: np.ndarray
    """The position behind the last token."""


class Examples:
    """The spans that every pass over a corpus is cut into.

    A document of at most `length` tokens is one span. A longer one is cut every `length` tokens, from a place that is drawn anew
    for every pass, so that its first and its last span are shorter. A pass has every token once, and all passes have the same
    number of spans: a document is cut from those places, at least half of all, that give it the number that most of them give.

    Args:
        store: a `TokenCorpus` or what has its attributes.
        length: tokens of a span at the most.
        seed: a number.

    Raises:
        ValueError: the corpus has no tokens, or a document without any.
    """

    def __init__(self, store, length, seed=0):
        starts = np.asarray(store.document_starts)
        sizes = np.diff(starts)
        if not len(sizes) or sizes.min() < 1:
            at = f"document {int(sizes.argmin())} has none" if len(sizes) else "it has no documents"
            raise ValueError(f"a corpus must have documents of at least one token each; {at}.")
        full, rest = np.divmod(sizes, length)
        # With q full lengths and a rest r, q + 1 spans leave `length − r + 1` places to cut from, and q + 2 leave r − 1.
        counts = np.where(sizes <= length, 1, full + 1 + (2 * rest > length + 2))
        self.length = length
        self.seed = seed
        self._starts = starts
        self._sizes = sizes
        self._ends = np.cumsum(counts)

    def __len__(self):
        return int(self._ends[-1])

    def at(self, positions):
        """The spans at some positions of the endless sequence of passes.

        Args:
            positions: whole numbers `(examples,)` from 0 on; position p is one of pass p // len(self).

        Returns:
            `Spans`.
        """
        passes, places = np.divmod(np.asarray(positions, "int64"), len(self))
        number = permuted(keys(self.seed, passes, 0), len(self), places)
        documents = np.searchsorted(self._ends, number, side="right")
        index = number - np.where(documents > 0, self._ends[documents - 1], 0)
        starts, sizes = self._starts[documents], self._sizes[documents]
        low = index * self.length - self._shift(passes, documents, sizes)
        return Spans(
            keys(self.seed, passes, places),
            documents,
            starts + np.maximum(low, 0),
            starts + np.minimum(low + self.length, sizes),
        )

    def _shift(self, passes, documents, sizes):
        """By how many tokens the first span is shorter than the others."""
        rest = sizes % self.length
        late = 2 * rest > self.length + 2
        first = np.where(late, self.length - rest + 1, rest == 0)
        count = np.where(late, rest - 1, self.length - rest + np.where(rest == 0, -1, 1))
        draws = uniform_at(keys(self.seed, passes, documents), 0, Stream.PHASE)
        return np.where(sizes <= self.length, 0, first + below(draws, count))


def from_passage_starts(store, spans, length):
    """Spans that begin where a passage does, as sentence pairs should, and are as long as they may be.

    A span goes back to the start of the passage that it begins in, unless that is more than half a length away. A token may then be
    in two spans of a pass or in none; where spans are cut changes from pass to pass.

    Args:
        store: a `TokenCorpus` or what has its attributes.
        spans: `Spans`.
        length: tokens of a span at the most.
    """
    passages = np.asarray(store.passage_starts)
    begin = passages[np.searchsorted(passages, spans.starts, side="right") - 1]
    starts = np.where(spans.starts - begin <= length // 2, begin, spans.starts)
    ends = np.minimum(starts + length, np.asarray(store.document_starts)[spans.documents + 1])
    return Spans(spans.keys, spans.documents, starts, ends)


def shortened(spans, rate, length):
    """Some of the spans cut to a random length, so that a model sees short inputs too.

    Args:
        spans: `Spans`.
        rate: part of the spans to cut, in [0, 1].
        length: the lengths are drawn from 2 to this one, each as often.

    Returns:
        The spans, and the length that each example may have, `(examples,)`: `length` where it was not cut.

    Reference: `short_seq_prob` in `create_pretraining_data.py` of google-research/bert.
    """
    short = uniform_at(spans.keys, 0, Stream.PAIR) < rate
    targets = np.where(short, 2 + below(uniform_at(spans.keys, 1, Stream.PAIR), length - 1), length)
    return Spans(spans.keys, spans.documents, spans.starts, np.minimum(spans.ends, spans.starts + targets)), targets
