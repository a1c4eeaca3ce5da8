"""The two segments of an example, whether the second one follows the first, and the windows they are cut from.

Pairs of both labels are cut by the same rule, so that lengths, edges and boundaries reveal nothing about the label:

- Next sentences: the first segment is the same for both labels. The second begins in its own window, where the first one ends, or
  in a window of another document, at a position of the same kind: at the start of a passage if both windows have one, else of a
  sentence, else of a word. Its length is the same either way: as much as fits, or, if one of the two documents ends before that, a
  number of tokens drawn from those possible for both.
- Swapped sentences: both segments begin and end at positions of one kind: passages or sentences, whichever the window has more of,
  or words if there are too few of these.
"""

import copy
from dataclasses import dataclass, fields

import numpy as np

from keras_bert_rebuild.data.pretraining.vocabulary_tables import BEFORE, sentence_begins
from keras_bert_rebuild.data.random_numbers import Stream, below, uniform_at

# Kinds of positions at which a window may be cut: the start of a passage, of any other sentence, of any other word.
PASSAGE, SENTENCE, WORD = KINDS = range(3)

# Within this many tokens there is the start of a word.
_WORD_REACH = 8


class PairWindows:
    """A window of a document for every example.

    Random numbers are in [0, 1), `(examples,)`. A position that does not exist is -1.

    Args:
        store: a corpus.
        tables: the `VocabularyTables` of the corpus.
        spans: `Spans`; the windows begin near their starts.
        targets: maximum number of tokens of a window, `(examples,)`.

    Attributes:
        targets: as given.
        begins, ends: position of the first token of the document, and after its last, `(examples,)`.
        origins: the earliest position at which a window may begin, `(examples,)`: the start of the span, or earlier if the document
            ends within half a length.
        starts, limits: start and end of the window, which starts at the first passage or sentence that begins near its origin, or
            at the origin if there is none.
    """

    def __init__(self, store, tables, spans, targets):
        self.begins, self.ends = spans.document_starts, spans.document_ends
        self.origins = np.maximum(np.minimum(spans.starts, self.ends - targets // 2), self.begins)
        self.targets = targets
        longest = int(targets.max(initial=0))
        width = longest + longest // 2 + 1
        positions = self.origins[:, None] + np.arange(-BEFORE, width)
        ids = store.ids_at(np.clip(positions, self.begins[:, None], self.ends[:, None] - 1))
        inside = positions[:, BEFORE:] < self.ends[:, None]
        passages = _passage_begins(store, self.origins, width) & inside
        sentences = sentence_begins(tables.sentence_marks[ids]) & inside & ~passages
        words = inside & ~passages & ~sentences & ~tables.continues[ids[:, BEFORE:]]
        self._kinds = passages, sentences, words
        start = self._first(passages | sentences, self.origins, self.origins + targets // 2)
        self.starts = np.where(start >= 0, start, self.origins)
        self.limits = np.minimum(self.starts + targets, self.ends)

    def take(self, rows):
        """The windows of some of the examples."""
        some = copy.copy(self)
        for name in ("begins", "ends", "origins", "targets", "starts", "limits"):
            setattr(some, name, getattr(self, name)[rows])
        some._kinds = tuple(kind[rows] for kind in self._kinds)
        return some

    def count(self, kind):
        """The number of positions of a kind, `(examples,)`."""
        return self._kinds[kind].sum(axis=1)

    def position(self, kind, low, high, draws):
        """A position of a kind from `low` to `high`, drawn uniformly."""
        rows, columns = np.nonzero(self._among(self._kinds[kind], low, high))
        counts = np.bincount(rows, minlength=len(self.origins))
        drawn = np.cumsum(counts) - counts + below(draws, counts)
        return np.where(counts > 0, self.origins + np.append(columns, 0)[np.minimum(drawn, len(columns))], -1)

    def edges(self, kind, front, back):
        """Two positions of a kind about as far apart as a window is long, with the same probability in reversed order.

        One of them is drawn, and the other follows from it. The start and end of a document would reveal which part comes first, so
        they are left out; with words, so is a random number of tokens next to them, at most a quarter of the window. Half of the
        windows near them are not cut at passages, so that those passages are seen, too.
        """
        at_begin, at_end = self.origins == self.begins, self.origins + self.targets >= self.ends
        low, high = self.origins + at_begin, np.minimum(self.origins + self.targets + self.targets // 2, self.ends - 1)
        forward, draw, reach = front < 0.5, front * 2 % 1, self.targets // 2
        if kind == WORD:
            quarter = np.minimum(self.targets, self.ends - self.origins) // 4
            low, high = low + at_begin * below(draw, quarter), high - at_end * below(back, quarter)
            reach = np.minimum(quarter, _WORD_REACH)
        drawn = np.where(forward, self.position(kind, low, low + reach, draw), self.position(kind, high - reach, high, draw))
        exists = drawn >= 0
        if kind == PASSAGE:
            exists &= ~(at_begin | at_end) | (back * 2 % 1 < 0.5)
        start = np.where(forward, drawn, self._first(self._kinds[kind], np.maximum(drawn - self.targets, low), drawn))
        end = np.where(forward, self._last(self._kinds[kind], drawn, np.minimum(drawn + self.targets, high)), drawn)
        return np.where(exists, start, -1), np.where(exists, end, -1)

    def middle(self, kind, low, high, draws):
        """A position of a kind between two others: half of the time drawn uniformly, else the nearest to a random token.

        A position with a long gap before or after it is more often an edge of a window. This draws it more often as well; otherwise
        a model that knows the text could tell the label by the frequency of positions.
        """
        uniform, draw = self.position(kind, low + 1, high - 1, draws * 2 % 1), draws * 4 % 1
        token = low + 1 + below(draw, np.maximum(high - low - 1, 1))
        before, after = self._last(self._kinds[kind], low + 1, token), self._first(self._kinds[kind], token, high - 1)
        nearest = np.where(draws < 0.75, before, after)
        return np.where((draws < 0.5) | (nearest < 0) | (uniform < 0), uniform, nearest)

    def _first(self, candidates, low, high):
        inside = self._among(candidates, low, high)
        return np.where(inside.any(axis=1), self.origins + inside.argmax(axis=1), -1)

    def _last(self, candidates, low, high):
        inside = self._among(candidates, low, high)
        return np.where(inside.any(axis=1), self.origins + inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1), -1)

    def _among(self, candidates, low, high):
        columns = np.arange(candidates.shape[1], dtype="int32")
        low, high = ((position - self.origins).astype("int32")[:, None] for position in (low, high))
        return candidates & (columns >= low) & (columns <= high)


def _passage_begins(store, starts, width):
    """Where passages begin: True at `starts[row] + column`, `(rows, width)`."""
    passages = store.passage_starts
    low, high = np.searchsorted(passages, np.minimum([starts, starts + width], store.num_tokens))
    counts = high - low
    rows = np.repeat(np.arange(len(starts)), counts)
    here = passages[np.arange(len(rows)) + np.repeat(low - (np.cumsum(counts) - counts), counts)]
    begins = np.zeros((len(starts), width), bool)
    begins[rows, here - starts[rows]] = True
    return begins


# Counters of the stream PAIR; 0 and 1 are used by `examples.shortened`.
_POSITION, _LABEL, OTHER_SPAN, _OTHER_POSITION, _LENGTH, _FRONT, _BACK = range(2, 9)

# Maximum number of tokens by which a next sentence is shortened; at most a sixteenth of the length.
_SHORTER = 8


@dataclass(frozen=True, eq=False)
class Segments:
    """Spans of the corpus that make an example, arrays `(examples,)`."""

    first_starts: np.ndarray
    first_lengths: np.ndarray
    second_starts: np.ndarray
    second_lengths: np.ndarray

    labels: np.ndarray
    """1 if the second segment is random or the two are swapped, otherwise 0."""

    def take(self, examples):
        """The segments of some of the examples."""
        return Segments(*(getattr(self, field.name)[examples] for field in fields(self)))


def next_sentence_pairs(store, tables, spans, random, targets, random_next_rate=0.5):
    """Pairs for next-sentence prediction.

    Args:
        store: a corpus of at least two documents.
        tables: the `VocabularyTables` of the corpus.
        spans: `Spans`.
        random: for each span, one of another document, see `Examples.from_other_documents`.
        targets: maximum number of tokens of both segments together, `(examples,)`, at least 2.
        random_next_rate: rate of random second segments.

    Returns:
        `Segments`; label 1 if the second segment is random, as it always is after a document of one token.

    Reference: Devlin et al., 2019, appendix A.2. `create_instances_from_document` of google-research/bert cuts random segments by
    a different rule than true ones.
    """
    windows = [PairWindows(store, tables, each, targets) for each in (spans, random)]
    draws = [uniform_at(spans.keys, draw, Stream.PAIR) for draw in (_POSITION, _OTHER_POSITION)]
    # A document of one token has nothing left for the second segment; as the other document, it is the second segment.
    own, other = windows[0].starts + 1, np.minimum(windows[1].starts + 1, windows[1].ends - 1)
    rows = np.arange(len(own))
    for kind in KINDS:
        some = [(window.take(rows), draw[rows]) for window, draw in zip(windows, draws, strict=True)]
        positions = [window.position(kind, window.starts + 1, window.limits - 1, draw) for window, draw in some]
        both = (positions[0] >= 0) & (positions[1] >= 0)
        own[rows[both]], other[rows[both]] = positions[0][both], positions[1][both]
        rows = rows[~both]
    alone = own == windows[0].ends
    is_random = alone | (uniform_at(spans.keys, _LABEL, Stream.PAIR) < random_next_rate)
    first_lengths = own - windows[0].starts
    room = targets - first_lengths
    common = np.minimum(np.where(alone, room, windows[0].ends - own), windows[1].ends - other)
    # Otherwise true second segments would end a fixed number of tokens after the start of a sentence, and random ones anywhere.
    draw = uniform_at(spans.keys, _LENGTH, Stream.PAIR)
    shorter = np.minimum(below(draw, np.minimum(targets // 16, _SHORTER) + 1), room - 1)
    second_lengths = np.where(common >= room, room - shorter, 1 + below(draw, np.minimum(common, room)))
    return Segments(windows[0].starts, first_lengths, np.where(is_random, other, own), second_lengths, is_random.astype("int32"))


def sentence_order_pairs(store, tables, spans, targets, swap_rate=0.5):
    """Pairs for sentence-order prediction: the two parts of a window, in order or swapped.

    Args:
        store: a corpus.
        tables: the `VocabularyTables` of the corpus.
        spans: `Spans`.
        targets: maximum number of tokens of both segments together, `(examples,)`, at least 2.
        swap_rate: rate of swapped pairs.

    Returns:
        `Segments`; label 1 if the two are swapped. The second part of a document of one token is empty, with label 0.

    Reference: Lan et al., 2020, section 3.1 (https://arxiv.org/abs/1909.11942).
    """
    window = PairWindows(store, tables, spans, targets)
    draw, front, back = (uniform_at(spans.keys, number, Stream.PAIR) for number in (_POSITION, _FRONT, _BACK))
    starts, ends = window.origins.copy(), np.minimum(window.origins + targets, window.ends)
    middles = np.minimum(starts + 1 + below(draw, np.maximum(ends - starts - 1, 1)), ends)
    left = np.ones(len(starts), bool)
    by_passages = window.count(PASSAGE) >= window.count(SENTENCE)
    for kind, wanted in ((PASSAGE, by_passages), (SENTENCE, True), (PASSAGE, ~by_passages), (WORD, True)):
        rows = np.flatnonzero(left & wanted)
        some = window.take(rows)
        start, end = some.edges(kind, front[rows], back[rows])
        middle = some.middle(kind, start, end, draw[rows])
        divided = (start >= 0) & (middle >= 0)
        done = rows[divided]
        starts[done], middles[done], ends[done] = start[divided], middle[divided], end[divided]
        left[done] = False
    swapped = (uniform_at(spans.keys, _LABEL, Stream.PAIR) < swap_rate) & (middles < ends)
    first, second = (starts, middles - starts), (middles, ends - middles)
    pairs = [np.where(swapped, b, a) for a, b in zip((*first, *second), (*second, *first), strict=True)]
    return Segments(*pairs, swapped.astype("int32"))


def single_segments(spans):
    """Every span as an example with one segment."""
    nothing = np.zeros_like(spans.starts)
    return Segments(spans.starts, spans.ends - spans.starts, spans.ends, nothing, nothing.astype("int32"))
