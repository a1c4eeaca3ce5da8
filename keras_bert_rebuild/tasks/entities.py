"""Entities and the BIO tags of their words."""

import itertools
from collections import namedtuple

import numpy as np

from keras_bert_rebuild.tasks.metrics.entities import entities_of

OUTSIDE = "O"

# A label, and the first word and the one behind the last, or in a text its characters.
Span = namedtuple("Span", ["label", "start", "end"])


def is_bio(labels):
    """Whether labels are tags of entities: B-x or I-x, and O."""
    of_entities = set(labels) - {OUTSIDE}
    return bool(of_entities) and all(label[:2] in ("B-", "I-") and len(label) > 2 for label in of_entities)


def spans_of_tags(tags):
    """The entities that BIO tags mean.

    An entity begins at B-x, or at an I-x that does not follow B-x or I-x of the same label, and goes on over the I-x behind it. So
    every sequence of tags means something, as in conlleval and seqeval.

    Example:

    >>> [tuple(span) for span in spans_of_tags(["B-per", "I-per", "O", "I-loc", "B-loc"])]
    [('per', 0, 2), ('loc', 3, 4), ('loc', 4, 5)]
    """
    return [Span(kind, first, last + 1) for kind, first, last in entities_of(tags)]


def tags_of_spans(starts, ends, spans):
    """BIO tags for words from the spans of characters that words lie in.

    Args:
        starts, ends: first character of every word and the one behind its last.
        spans: `(start, end, label)`, in characters.

    Returns:
        A tag for each word: a word belongs to the span that has the most of its characters, the first of them if two have as many.

    Raises:
        ValueError: spans overlap, or all the words of a span belong to others.
    """
    spans = sorted(spans)
    for (_, behind, _), (start, end, label) in itertools.pairwise(spans):
        if start < behind:
            raise ValueError(f"spans must not overlap; {(start, end, label)} begins in the one before")
    owners = [_owner(first, last, spans) for first, last in zip(starts, ends, strict=True)]
    for span in spans:
        if span not in owners:
            raise ValueError(f"every span must have a word of its own; {span} has none")
    return [
        OUTSIDE if span is None else f"{'I' if span == before else 'B'}-{span[2]}"
        for before, span in itertools.pairwise([None, *owners])
    ]


def _owner(first, last, spans):
    """The span with the most characters of `first` to `last`, the first of several; None where no span has one."""
    shared = [min(end, last) - max(start, first) for start, end, _ in spans]
    most = max(shared, default=0)
    return spans[shared.index(most)] if most > 0 else None


def best_tags(log_probabilities, labels):
    """The most probable sequence of tags that BIO allows: no I-x but behind B-x or I-x.

        argmax Σ_i log p_i(tag_i)

    Where a label has an I-x and no B-x, entities begin with I-x, as in the files of CoNLL-2003, and every sequence is allowed.

    Args:
        log_probabilities: `(words, labels)`.
        labels: the tags.

    Returns:
        The numbers of the tags, `(words,)`.

    Reference: Viterbi's algorithm, with transitions that are allowed or not.
    """
    words = len(log_probabilities)
    if not words:
        return np.zeros(0, "int64")
    if any(label.startswith("I-") and f"B-{label[2:]}" not in labels for label in labels):
        return np.argmax(log_probabilities, axis=1)
    # What may come behind a tag; a sentence begins as behind O.
    allowed = np.array([[_may_follow(before, tag) for tag in labels] for before in labels])
    at_start = np.array([_may_follow(OUTSIDE, tag) for tag in labels])
    score = np.where(at_start, log_probabilities[0], -np.inf)
    origins = np.zeros((words, len(labels)), "int64")
    for i in range(1, words):
        ways = np.where(allowed, score[:, None], -np.inf)
        origins[i] = ways.argmax(0)
        score = ways.max(0) + log_probabilities[i]
    best = np.zeros(words, "int64")
    best[-1] = score.argmax()
    for i in range(words - 1, 0, -1):
        best[i - 1] = origins[i, best[i]]
    return best


def _may_follow(before, tag):
    return not tag.startswith("I-") or before[2:] == tag[2:]
