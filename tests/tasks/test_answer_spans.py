"""Answers from the logits of their start and end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.answer_spans import ScoredSpan, best_spans, merge_spans, span_of_tokens


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 12), st.integers(0, 10_000))
def test_the_best_spans_are_those_of_an_exhaustive_search(length, max_tokens, count, seed):
    rng = np.random.default_rng(seed)
    starts, ends = rng.normal(size=(2, length))
    may_start, may_end = rng.random((2, length)) < 0.7
    offsets = np.stack([np.arange(length) * 3, np.arange(length) * 3 + 2], axis=1)
    got = best_spans(starts, ends, offsets, may_start, may_end, count, max_tokens)
    every = [
        ScoredSpan(3 * i, 3 * j + 2, starts[i] + ends[j])
        for i in range(length)
        for j in range(i, min(i + max_tokens, length))
        if may_start[i] and may_end[j]
    ]
    expected = sorted(every, key=lambda span: -span.score)[:count]
    assert [span[:2] for span in got] == [span[:2] for span in expected]
    assert [span.score for span in got] == pytest.approx([span.score for span in expected])


def test_windows_that_find_the_same_span_count_once_with_the_better_score():
    spans = [ScoredSpan(0, 3, 1.0), ScoredSpan(4, 6, 3.0), ScoredSpan(0, 3, 2.0), ScoredSpan(0, 6, 0.5)]
    assert merge_spans(spans, 2) == [ScoredSpan(4, 6, 3.0), ScoredSpan(0, 3, 2.0)]


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        ((0, 3), (2, 2)),
        ((0, 7), (2, 3)),
        ((5, 6), (3, 3)),  # inside a token: the whole token
        ((8, 14), None),  # continues after the window
        ((20, 22), None),
    ],
)
def test_an_answer_has_its_tokens_if_the_window_has_all_of_them(characters, expected):
    offsets = np.array([(0, 0), (0, 0), (0, 3), (4, 7), (8, 11), (0, 0)])
    chosen = np.array([False, False, True, True, True, False])
    assert span_of_tokens(offsets, chosen, *characters) == expected


def test_an_answer_that_starts_before_the_window_has_no_tokens():
    offsets = np.array([(0, 0), (4, 7), (8, 11)])
    assert span_of_tokens(offsets, np.array([False, True, True]), 0, 7) is None
    assert span_of_tokens(offsets, np.array([False, True, True]), 3, 7) is None
