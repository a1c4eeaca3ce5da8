"""The two segments of an example, and whether the second one follows the first.

Both labels have the same rule for cutting a pair, so that lengths, edges and boundaries reveal nothing about the label:

- Next sentences: the first segment is the same for both labels. The second begins in its own window, where the first one ends, or
  in a window of another document, at a position of the same kind: where a passage begins if both windows have such a position, else
  where a sentence does, else a word. Its length is the same either way: what fits, or, if one of the two documents ends before
  that, a number of tokens drawn from those that both have.
- Swapped sentences: both segments begin and end at positions of one kind: passages or sentences, whichever the window has more of,
  and words if there are too few of these.
"""

from dataclasses import dataclass, fields

import numpy as np

from keras_bert_rebuild.data.pretraining.pair_windows import KINDS, PASSAGE, SENTENCE, WORD, PairWindows
from keras_bert_rebuild.data.random_numbers import Stream, below, uniform_at

# Draws of the stream PAIR; 0 and 1 are those of `examples.shortened`.
_POSITION, _LABEL, OTHER_SPAN, _OTHER_POSITION, _LENGTH, _FRONT, _BACK = range(2, 9)

# A next sentence is shortened by at most this many tokens, and by at most a sixteenth of the length.
_SHORTER = 8


@dataclass(frozen=True, eq=False)
class Segments:
    """Spans of the corpus that make an example, arrays `(examples,)`."""

    first_starts: np.ndarray
    first_lengths: np.ndarray
    second_starts: np.ndarray
    second_lengths: np.ndarray

    labels: np.ndarray
    """1 where the second segment is a random one or the two are swapped, otherwise 0."""

    def take(self, examples):
        """The segments of some of the examples."""
        return Segments(*(getattr(self, field.name)[examples] for field in fields(self)))


def next_sentence_pairs(store, tables, spans, others, targets, random_next_rate=0.5):
    """Pairs for the next-sentence task.

    Args:
        store: a corpus of at least two documents.
        tables: the `VocabularyTables` of the corpus.
        spans: `Spans`.
        others: for each a span of another document, as from `Examples.of_other_documents`.
        targets: maximum number of tokens of both segments together, `(examples,)`, at least 2.
        random_next_rate: rate of random second segments.

    Returns:
        `Segments`; their label is 1 where the second segment is a random one, as it always is after a document of one token.

    Reference: Devlin et al., 2019, appendix A.2. `create_instances_from_document` of google-research/bert cuts random segments by
    a different rule than true ones.
    """
    windows = [PairWindows(store, tables, each, targets) for each in (spans, others)]
    draws = [uniform_at(spans.keys, draw, Stream.PAIR) for draw in (_POSITION, _OTHER_POSITION)]
    # A document of one token has nothing left after the first segment; as the other document it is the second segment.
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
    # Otherwise true second segments would end a fixed number of tokens after the start of a sentence, random ones anywhere.
    draw = uniform_at(spans.keys, _LENGTH, Stream.PAIR)
    shorter = np.minimum(below(draw, np.minimum(targets // 16, _SHORTER) + 1), room - 1)
    second_lengths = np.where(common >= room, room - shorter, 1 + below(draw, np.minimum(common, room)))
    return Segments(windows[0].starts, first_lengths, np.where(is_random, other, own), second_lengths, is_random.astype("int32"))


def sentence_order_pairs(store, tables, spans, targets, swap_rate=0.5):
    """Pairs for the sentence-order task: the two parts of a window, in their order or swapped.

    Args:
        store: a corpus.
        tables: the `VocabularyTables` of the corpus.
        spans: `Spans`.
        targets: maximum number of tokens of both segments together, `(examples,)`, at least 2.
        swap_rate: rate of swapped pairs.

    Returns:
        `Segments`; their label is 1 where the two are swapped. The second part of a document of one token is empty, its label 0.

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
        found = (start >= 0) & (middle >= 0)
        done = rows[found]
        starts[done], middles[done], ends[done] = start[found], middle[found], end[found]
        left[done] = False
    swapped = (uniform_at(spans.keys, _LABEL, Stream.PAIR) < swap_rate) & (middles < ends)
    first, second = (starts, middles - starts), (middles, ends - middles)
    pairs = [np.where(swapped, b, a) for a, b in zip((*first, *second), (*second, *first), strict=True)]
    return Segments(*pairs, swapped.astype("int32"))


def single_segments(spans):
    """Every span as an example of one segment."""
    nothing = np.zeros_like(spans.starts)
    return Segments(spans.starts, spans.ends - spans.starts, spans.ends, nothing, nothing.astype("int32"))
