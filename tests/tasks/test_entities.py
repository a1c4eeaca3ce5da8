"""Tags and their entities."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.entities import best_tags, spans_of_tags, tags_of_spans

TAGS = ["O", "B-a", "I-a", "B-b", "I-b"]


def plain_spans(tags):
    """Word by word: which entity does it belong to, and is it the first word?"""
    spans = []
    for i, tag in enumerate(tags):
        if tag == "O":
            continue
        before = tags[i - 1] if i else "O"
        goes_on = tag.startswith("I-") and before != "O" and before[2:] == tag[2:]
        if goes_on:
            spans[-1][2] = i + 1
        else:
            spans.append([tag[2:], i, i + 1])
    return [tuple(span) for span in spans]


@given(st.lists(st.sampled_from(TAGS), max_size=8))
def test_entities_are_those_of_the_rules_word_by_word(tags):
    assert [tuple(span) for span in spans_of_tags(tags)] == plain_spans(tags)


def is_legal(tags):
    return all(
        not tag.startswith("I-") or (before != "O" and before[2:] == tag[2:]) for before, tag in itertools.pairwise(["O", *tags])
    )


@given(st.integers(1, 5), st.integers(0, 10_000))
def test_the_best_tags_are_the_best_of_all_legal_sequences(words, seed):
    scores = np.log(np.random.default_rng(seed).dirichlet(np.ones(len(TAGS)) * 0.3, words))
    got = best_tags(scores, TAGS, "IOB2")
    legal = [row for row in itertools.product(range(len(TAGS)), repeat=words) if is_legal([TAGS[i] for i in row])]
    assert is_legal([TAGS[i] for i in got])
    assert scores[np.arange(words), got].sum() == pytest.approx(max(scores[np.arange(words), row].sum() for row in legal))


def test_entities_of_labels_without_b_begin_with_i():
    scores = np.log([[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    assert best_tags(scores, ["O", "I-a", "B-b", "I-b"], "IOB1").tolist() == [1, 3]


@given(st.lists(st.sampled_from(TAGS), max_size=8).filter(is_legal))
def test_tags_round_trip_through_spans_of_characters(tags):
    starts = np.arange(len(tags)) * 4
    spans = [(int(starts[start]), int(starts[end - 1]) + 3, label) for label, start, end in spans_of_tags(tags)]
    assert tags_of_spans(starts.tolist(), (starts + 3).tolist(), spans) == tags


def test_a_word_belongs_to_the_span_that_covers_most_of_it():
    assert tags_of_spans([0, 5], [4, 9], [(2, 3, "a")]) == ["B-a", "O"]
    # "one pmnear x": words that users ran together are still separated
    assert tags_of_spans([0, 4, 11], [3, 10, 12], [(0, 6, "time"), (6, 10, "near"), (11, 12, "x")]) == ["B-time", "B-near", "B-x"]
    assert tags_of_spans([0, 2, 5], [1, 4, 6], [(0, 3, "a"), (3, 6, "b")]) == ["B-a", "I-a", "B-b"]  # one character each: the first


def test_overlapping_spans_and_spans_without_a_word_are_refused():
    with pytest.raises(ValueError, match=r"must not overlap; \(2, 4, 'b'\) begins in the one before"):
        tags_of_spans([0, 5], [4, 9], [(2, 4, "b"), (0, 3, "a")])
    with pytest.raises(ValueError, match=r"must have a word of its own; \(2, 4, 'b'\) has none"):
        tags_of_spans([0, 5], [4, 9], [(0, 2, "a"), (2, 4, "b")])
