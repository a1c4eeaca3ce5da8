"""Sentences begin behind the marks that end one, as a plain reading of the tokens says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpus import TokenCorpus
from keras_bert_rebuild.data.sentence_ends import CLOSES, EITHER, ENDS, sentence_begins, sentence_marks

TOKENS = ["a", "b", "##c", ".", "?", "”", ")", '"']


def plainly(tokens, place):
    """Whether a sentence begins at a place: an end before it, at most two closing marks between, and no mark there."""
    if tokens[place] in ENDS | CLOSES | EITHER:
        return False
    before = place - 1
    while before >= 0 and tokens[before] in CLOSES and place - before <= 2:
        before -= 1
    return before >= 0 and tokens[before] in ENDS


def begins(tokens, starts, width):
    ids = np.array([TOKENS.index(token) for token in tokens], "int32")
    store = TokenCorpus(ids, np.array([0, len(ids)]), np.array([0, len(ids)]), TOKENS)
    return sentence_begins(store, sentence_marks(TOKENS), np.array(starts), width)


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=30))
def test_a_sentence_begins_where_a_plain_reading_says(tokens):
    assert begins(tokens, [0], len(tokens))[0].tolist() == [plainly(tokens, place) for place in range(len(tokens))]


@given(st.lists(st.sampled_from(TOKENS), min_size=8, max_size=30), st.integers(0, 7))
def test_a_row_may_begin_anywhere(tokens, start):
    width = len(tokens) - start
    assert (begins(tokens, [start, 0], width)[0] == begins(tokens, [0], len(tokens))[0][start:]).all()


def test_what_is_behind_the_corpus_does_not_matter():
    assert begins(["a", ".", "b"], [0], 6)[0, :3].tolist() == [False, False, True]


def test_no_sentence_begins_beside_a_quotation_mark_that_opens_and_closes_alike():
    assert not begins(["a", ".", '"', "b"], [0], 4).any()
    assert begins(["a", ".", "”", "b"], [0], 4)[0].tolist() == [False, False, False, True]
