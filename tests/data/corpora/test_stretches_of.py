"""The spans of positions equal those found by a search for every position."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.token_store import span_indexes

STARTS = np.array([0, 5, 6, 20, 300])


@given(st.lists(st.lists(st.integers(0, 299), min_size=4, max_size=4), max_size=6))
def test_every_position_has_its_span(rows):
    positions = np.array(rows, "int64").reshape(-1, 4)
    found = np.broadcast_to(span_indexes(STARTS, positions), positions.shape)
    assert (found == np.searchsorted(STARTS, positions, side="right") - 1).all()
    assert (span_indexes(STARTS, positions.ravel()) == found.ravel()).all()


def test_rows_within_one_span_have_one_number():
    assert span_indexes(STARTS, np.array([[7, 19, 8], [5, 5, 5]])).tolist() == [[2], [1]]
