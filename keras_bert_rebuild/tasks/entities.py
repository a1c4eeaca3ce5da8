"""Entities and the tags of their words."""

import functools
import itertools
from collections import namedtuple

import numpy as np

from keras_bert_rebuild.layers.conditional_random_field import viterbi
from keras_bert_rebuild.tasks.metrics.entities import entities_of
from keras_bert_rebuild.tasks.metrics.tags import OUTSIDE
from keras_bert_rebuild.tasks.tag_schemes import may_follow, tags_of_entities

# A label, and the first word and the one after the last; in a text, its characters.
Span = namedtuple("Span", ["label", "start", "end"])


def spans_of_tags(tags):
    """The entities that tags of any scheme describe.

    Example:

    >>> [tuple(span) for span in spans_of_tags(["B-per", "I-per", "O", "I-loc", "B-loc"])]
    [('per', 0, 2), ('loc', 3, 4), ('loc', 4, 5)]
    """
    return [Span(kind, first, last + 1) for kind, first, last in entities_of(tags)]


def tags_of_spans(starts, ends, spans, scheme="IOB2"):
    """Tags of words from spans of characters.

    Args:
        starts, ends: first character of every word and the one after its last.
        spans: `(start, end, label)`, in characters.
        scheme: a key of `SCHEMES`, the scheme of the tags.

    Returns:
        A tag for each word: a word belongs to the span that has the most of its characters, or to the first of several such spans.

    Raises:
        ValueError: spans overlap, or all the words of a span belong to other spans.
    """
    spans = sorted(spans)
    for (_, end_before, _), (start, end, label) in itertools.pairwise(spans):
        if start < end_before:
            raise ValueError(f"spans must not overlap; {(start, end, label)} begins in the one before")
    owners = [_owner(first, last, spans) for first, last in zip(starts, ends, strict=True)]
    for span in spans:
        if span not in owners:
            raise ValueError(f"every span must have a word of its own; {span} has none")
    words = {span: [i for i, owner in enumerate(owners) if owner == span] for span in spans}
    return tags_of_entities(scheme, [(span[2], inside[0], inside[-1]) for span, inside in words.items()], len(owners))


def _owner(first, last, spans):
    """The span with the most characters of `first` to `last`, the first of several; None if no span has one."""
    shared = [min(end, last) - max(start, first) for start, end, _ in spans]
    most = max(shared, default=0)
    return spans[shared.index(most)] if most > 0 else None


def best_tags(log_probabilities, labels, scheme, transitions=None):
    """The best sequence of tags that a scheme allows.

        argmax Σ_i log p_i(tag_i)

    and for a conditional random field, with scores s instead of log p,

        argmax Σ_i s_i(tag_i) + begin[tag_1] + Σ_i next[tag_i-1, tag_i] + end[tag_n]

    Args:
        log_probabilities: `(words, labels)`, or unnormalised scores.
        labels: the tags.
        scheme: a key of `SCHEMES`; None if any tag may follow any other.
        transitions: scores of a `ConditionalRandomField`, `(labels + 2, labels)`: of the tag of the column after that of the row,
            then of beginning with it, then of ending with it; or None.

    Returns:
        The indices of the tags, `(words,)`; the best tag of every word by itself if these labels have no allowed sequence.
    """
    count = len(labels)
    scores = np.zeros((count + 2, count)) if transitions is None else np.array(transitions, "float64")
    scores[~_allowed(tuple(labels), scheme)] = -np.inf
    return viterbi(np.asarray(log_probabilities), scores)


@functools.lru_cache(maxsize=64)
def _allowed(labels, scheme):
    """Which tags may follow each other, begin and end a sequence, `(labels + 2, labels)` bool."""
    if scheme is None:
        return np.ones((len(labels) + 2, len(labels)), bool)
    rows = [[may_follow(scheme, before, tag) for tag in labels] for before in (*labels, OUTSIDE)]
    return np.array([*rows, [may_follow(scheme, tag, OUTSIDE) for tag in labels]])
