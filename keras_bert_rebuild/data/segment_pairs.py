"""The two segments of an example, and whether the second one follows."""

from dataclasses import dataclass, fields

import numpy as np

from keras_bert_rebuild.data.corpus import other_documents
from keras_bert_rebuild.data.random_numbers import Stream, below, uniform, uniform_at

# Draws of the stream PAIR; 0 and 1 are those of `examples.shortened`.
_BOUNDARY, _RANDOM, _DOCUMENT, _PASSAGE = 2, 3, 4, 5


@dataclass(frozen=True, eq=False)
class Segments:
    """Stretches of the corpus that make an example, arrays `(examples,)`."""

    first_starts: np.ndarray
    first_lengths: np.ndarray
    second_starts: np.ndarray
    second_lengths: np.ndarray

    labels: np.ndarray
    """1 where the second segment is a random one or the two are swapped, otherwise 0."""

    def take(self, examples):
        """The segments of some of the examples."""
        return Segments(*(getattr(self, field.name)[examples] for field in fields(self)))


def next_sentence_pairs(store, spans, targets, random_next_rate=0.5):
    """Pairs for the next-sentence task.

    The first segment is a span up to one of its inner boundaries of passages, drawn at random, or up to any token where it has
    none. The second is the rest of the span, or as many tokens of another document, from the start of a passage, drawn at random.
    Google's code always pairs a span that lies within a passage with another document; where passages are paragraphs most pairs
    would then be random ones, and here they are not. Only a span of a single token always is. Where the two segments do not fit,
    the longer loses tokens of its front and its back, drawn at random.

    Args:
        store: a corpus of at least two documents.
        spans: `Spans`.
        targets: tokens that both segments may have together, `(examples,)`, at least 2.
        random_next_rate: rate of random second segments.

    Returns:
        `Segments`; their label is 1 where the second segment is a random one.

    Reference: Devlin et al., 2019, appendix A.2; `create_instances_from_document` of google-research/bert.
    """
    boundary = _division(store, spans)
    is_random = (boundary == spans.ends) | (uniform_at(spans.keys, _RANDOM, Stream.PAIR) < random_next_rate)
    starts, lengths = spans.starts.copy(), boundary - spans.starts
    second_starts, second_lengths = boundary.copy(), spans.ends - boundary
    rows = np.flatnonzero(is_random)
    second_starts[rows], passage, rest = _random_passages(store, spans, rows)
    room = np.maximum(targets[rows] - lengths[rows], passage)
    second_lengths[rows] = np.minimum(np.minimum(room, rest), targets.max())
    _fit(spans.keys, starts, lengths, second_starts, second_lengths, targets)
    return Segments(starts, lengths, second_starts, second_lengths, is_random.astype("int32"))


def sentence_order_pairs(store, spans, swap_rate=0.5):
    """Pairs for the sentence-order task: the two parts of a span, in their order or swapped.

    A span is divided at one of its inner boundaries of passages, drawn at random, and at any token where it has none. The second
    part of a span of one token is empty.

    Args:
        store: a corpus.
        spans: `Spans`.
        swap_rate: rate of swapped pairs.

    Returns:
        `Segments`; their label is 1 where the two are swapped.

    Reference: Lan et al., 2020, section 3.1 (https://arxiv.org/abs/1909.11942).
    """
    boundary = _division(store, spans)
    swapped = (uniform_at(spans.keys, _RANDOM, Stream.PAIR) < swap_rate) & (boundary < spans.ends)
    first, second = (spans.starts, boundary - spans.starts), (boundary, spans.ends - boundary)
    pairs = [np.where(swapped, b, a) for a, b in zip((*first, *second), (*second, *first), strict=True)]
    return Segments(*pairs, swapped.astype("int32"))


def single_segments(spans):
    """Every span as an example of one segment."""
    nothing = np.zeros_like(spans.starts)
    return Segments(spans.starts, spans.ends - spans.starts, spans.ends, nothing, nothing.astype("int32"))


def _division(store, spans):
    """Where spans are divided: at a start of a passage inside, drawn at random, else at any token; a single token is not."""
    draws = uniform_at(spans.keys, _BOUNDARY, Stream.PAIR)
    low = np.searchsorted(store.passage_starts, spans.starts, side="right")
    count = np.searchsorted(store.passage_starts, spans.ends, side="left") - low
    at_passage = np.asarray(store.passage_starts)[low + below(draws, np.maximum(count, 1))]
    anywhere = spans.starts + 1 + below(draws, np.maximum(spans.ends - spans.starts - 1, 1))
    return np.where(count > 0, at_passage, np.minimum(anywhere, spans.ends))


def _random_passages(store, spans, rows):
    """For some spans a passage of another document: its start, its length, and the tokens up to the end of the document."""
    of_document, of_passage = (uniform_at(spans.keys[rows], draw, Stream.PAIR) for draw in (_DOCUMENT, _PASSAGE))
    other = other_documents(store, spans.documents[rows], of_document)
    begin, end = np.asarray(store.document_starts)[other], np.asarray(store.document_starts)[other + 1]
    low = np.searchsorted(store.passage_starts, begin, side="left")
    high = np.searchsorted(store.passage_starts, end, side="left")
    passage = low + below(of_passage, high - low)
    start, following = np.asarray(store.passage_starts)[passage], np.asarray(store.passage_starts)[passage + 1]
    return start, following - start, end - start


def _fit(keys, starts, lengths, second_starts, second_lengths, targets):
    """Cut the segments, in place, until both fit: always the longer one, the second where they are as long."""
    rows = np.flatnonzero(lengths + second_lengths > targets)
    if not len(rows):
        return
    room = targets[rows]
    kept = np.minimum(lengths[rows], np.maximum(room - second_lengths[rows], room - room // 2))
    cuts = lengths[rows] - kept, second_lengths[rows] - (room - kept)
    # Each token that goes is one of the front with a probability of a half.
    front = uniform(keys[rows], int((cuts[0] + cuts[1]).max()), Stream.CUT) < 0.5
    order = np.arange(front.shape[1])
    of_first = order < cuts[0][:, None]
    starts[rows] += (front & of_first).sum(axis=1)
    second_starts[rows] += (front & ~of_first & (order < (cuts[0] + cuts[1])[:, None])).sum(axis=1)
    lengths[rows], second_lengths[rows] = kept, room - kept
