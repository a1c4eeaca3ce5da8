"""Entities and the BIO tags of their words."""

import itertools
from collections import namedtuple

import numpy as np

OUTSIDE = "O"

# A label, and the first word and the one behind the last, or in a text its characters.
Span = namedtuple("Span", ["label", "start", "end"])


def is_bio(labels):
    """Whether labels are tags of entities: O, and B-x or I-x."""
    return all(label == OUTSIDE or (label[:2] in ("B-", "I-") and len(label) > 2) for label in labels) and set(labels) != {OUTSIDE}


def spans_of_tags(tags):
    """The entities that BIO tags mean.

    An entity begins at B-x, or at an I-x that does not follow B-x or I-x of the same label, and goes on over the I-x behind it. So
    every sequence of tags means something, as in conlleval and seqeval.

    Example:

    >>> [tuple(span) for span in spans_of_tags(["B-per", "I-per", "O", "I-loc", "B-loc"])]
    [('per', 0, 2), ('loc', 3, 4), ('loc', 4, 5)]
    """
    spans, label, start = [], None, 0
    for i, tag in enumerate((*tags, OUTSIDE)):
        if label is not None and tag != f"I-{label}":
            spans.append(Span(label, start, i))
            label = None
        if tag != OUTSIDE and label is None:
            label, start = tag[2:], i
    return spans


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
    tags = [OUTSIDE] * len(starts)
    most = [0] * len(starts)
    owner = [None] * len(starts)
    for number, (start, end, _) in enumerate(spans):
        for i, (first, last) in enumerate(zip(starts, ends, strict=True)):
            shared = min(end, last) - max(start, first)
            if shared > most[i]:
                most[i], owner[i] = shared, number
    for number, span in enumerate(spans):
        inside = [i for i, of in enumerate(owner) if of == number]
        if not inside:
            raise ValueError(f"every span must have a word of its own; {span} has none")
        for i in inside:
            tags[i] = f"{'B' if i == inside[0] else 'I'}-{span[2]}"
    return tags


def best_tags(log_probabilities, labels):
    """The most probable sequence of tags that BIO allows: no I-x but behind B-x or I-x.

        argmax Σ_i log p_i(tag_i)

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
