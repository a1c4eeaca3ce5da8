"""Offsets that are read piece by piece are those of an array in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.offsets import JoinedOffsets, SelectedOffsets

# The lengths of the spans of every piece; none of a piece that only continues the last span of the one before.
PIECES = st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(1, 9), max_size=6)), min_size=1, max_size=8)


def joined(pieces):
    """The offsets, and the same in memory; each piece begins with some tokens of the last span of the piece before."""
    arrays = [rest + np.cumsum([0, *lengths]) for rest, lengths in pieces]
    begins = np.cumsum([0, *(int(array[-1]) for array in arrays)])
    counts = [len(lengths) for _, lengths in pieces]
    parts = [array[:-1] + begin for array, begin in zip(arrays, begins, strict=False)]
    return JoinedOffsets(arrays.__getitem__, counts, begins), np.concatenate([*parts, begins[-1:]])


def check(offsets, expected):
    assert len(offsets) == len(expected)
    np.testing.assert_array_equal(offsets, expected)
    np.testing.assert_array_equal(offsets[1:3], expected[1:3])
    np.testing.assert_array_equal(offsets[[[0, -1]]], expected[[[0, -1]]])
    assert offsets[-1] == expected[-1]
    values = np.arange(-2, expected[-1] + 3)
    for side in ("left", "right"):
        np.testing.assert_array_equal(np.searchsorted(offsets, values, side=side), np.searchsorted(expected, values, side=side))


@given(PIECES.filter(lambda pieces: all(rest or lengths for rest, lengths in pieces)))
def test_joined_offsets_are_those_of_the_concatenated_pieces(pieces):
    check(*joined(pieces))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.data())
def test_selected_offsets_are_those_of_the_parts_that_stay(lengths, data):
    whole = np.cumsum([0, *lengths])
    stays = np.array(data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths))))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], stays, [0]]))).reshape(-1, 2)
    cut = np.array([data.draw(st.integers(0, lengths[first] - 1)) for first, _ in edges], "int64")  # a part may begin within a span
    origins = whole[edges[:, 0]] + cut
    begins = np.cumsum([0, *(whole[edges[:, 1]] - origins)])
    kept = np.array(lengths)
    kept[edges[:, 0]] -= cut
    offsets = SelectedOffsets(whole, *edges.T, origins, begins)
    check(offsets, np.cumsum([0, *kept[stays]]))


def test_an_index_outside_is_an_error():
    offsets, expected = joined([(0, [2, 3]), (1, [4])])
    for index in (4, -5, [0, 9]):
        with pytest.raises(IndexError, match="expected indices below 4"):
            offsets[index]
    assert list(offsets) == offsets.tolist() == expected.tolist()
