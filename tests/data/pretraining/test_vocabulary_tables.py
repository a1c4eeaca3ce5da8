"""Sentences start after the marks that end one, compared with a plain reading of the tokens."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.pretraining.vocabulary_tables import (
    BEFORE,
    CLOSES,
    EITHER,
    ENDS,
    OTHER,
    sentence_begins,
    sentence_marks,
)

TOKENS = ["a", "b", "##c", ".", "?", "”", ")", '"']


def plainly(tokens, place):
    """Whether a sentence starts at an index: an end before it, at most two closing marks between, and no mark there."""
    if tokens[place] in ENDS | CLOSES | EITHER:
        return False
    before = place - 1
    while before >= 0 and tokens[before] in CLOSES and place - before <= 2:
        before -= 1
    return before >= 0 and tokens[before] in ENDS


def begins(tokens):
    marks = sentence_marks(TOKENS)[[TOKENS.index(token) for token in tokens]]
    return sentence_begins(np.concatenate([[OTHER] * BEFORE, marks])[None].astype("uint8"))[0].tolist()


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=30))
def test_a_sentence_begins_where_a_plain_reading_says(tokens):
    assert begins(tokens) == [plainly(tokens, place) for place in range(len(tokens))]


def test_rows_are_independent():
    rows = sentence_marks(TOKENS)[[[0, 0, 0, 3, 1], [3, 0, 3, 5, 0]]]
    assert sentence_begins(rows).tolist() == [[False, True], [False, True]]


def test_no_sentence_begins_at_an_ambiguous_quotation_mark():
    assert not any(begins(["a", ".", '"', "b"]))
    assert begins(["a", ".", "”", "b"]) == [False, False, False, True]
