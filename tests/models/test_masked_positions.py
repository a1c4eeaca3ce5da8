"""Gathering and aligning at the labelled positions, against plain NumPy, for batches of every kind."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_bert_rebuild.layers.masks import at_positions, nan_if_left_out, slots_of
from keras_bert_rebuild.models.masked_positions import flat_labels, labelled_positions, weights_at

pytestmark = pytest.mark.backend

# Batches of up to 3 examples of up to 7 positions, some of them labelled, and a number of slots that may be too large.
BATCHES = st.tuples(st.integers(1, 3), st.integers(1, 7)).flatmap(
    lambda shape: st.tuples(
        st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
            lambda chosen: np.reshape(chosen, shape)
        ),
        st.integers(1, 9),
    )
)
some_examples = settings(max_examples=25)


def in_slots(labelled, slots):
    """The positions of the labels in order, then the others in order, cut to the number of slots."""
    return np.argsort(~labelled, axis=1, kind="stable")[:, :slots]


@pytest.mark.slow
@given(BATCHES)
@some_examples
def test_labels_come_first_and_in_order(batch):
    labelled, slots = batch
    positions, has_label = slots_of(ops.convert_to_tensor(labelled), slots)
    expected = in_slots(labelled, slots)
    has = np.take_along_axis(labelled, expected, axis=1)
    np.testing.assert_array_equal(ops.convert_to_numpy(has_label), has)
    np.testing.assert_array_equal(ops.convert_to_numpy(positions)[has], expected[has])
    for row in ops.convert_to_numpy(positions):
        assert len(set(row.tolist())) == len(row)  # no position twice
    left_out = labelled.sum() > has.sum()
    assert np.isnan(ops.convert_to_numpy(nan_if_left_out(ops.convert_to_tensor(labelled), has_label))) == left_out


def test_without_a_number_of_slots_all_positions_stay():
    labelled = ops.convert_to_tensor(np.array([[True, False]]))
    assert slots_of(labelled, None) == (None, labelled)
    values = ops.convert_to_tensor(np.arange(2).reshape(1, 2))
    assert at_positions(values, None) is values


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@given(BATCHES)
@some_examples
@pytest.mark.slow
def test_values_and_weights_are_taken_where_the_slots_are(batch):
    labelled, slots = batch
    tensor, (size, length) = ops.convert_to_tensor(labelled), labelled.shape
    positions, _ = slots_of(tensor, slots)
    where = numpy(positions)
    ids, vectors = np.arange(size * length).reshape(size, length), np.arange(size * length * 2).reshape(size, length, 2)
    np.testing.assert_array_equal(numpy(at_positions(ops.convert_to_tensor(ids), positions)), np.take_along_axis(ids, where, 1))
    np.testing.assert_array_equal(
        numpy(at_positions(ops.convert_to_tensor(vectors), positions)), np.take_along_axis(vectors, where[..., None], 1)
    )
    of_positions, of_examples = (ids / 7).astype("float32"), np.arange(1, size + 1, dtype="float32")
    for given_weights, each in (
        (of_positions, of_positions),
        (of_positions[..., None], of_positions),
        (of_examples, np.broadcast_to(of_examples[:, None], ids.shape)),
        (of_examples[:, None], np.broadcast_to(of_examples[:, None], ids.shape)),
    ):
        weights = ops.convert_to_tensor(given_weights)
        np.testing.assert_array_equal(numpy(weights_at(weights, tensor, None)), each)
        np.testing.assert_array_equal(numpy(weights_at(weights, tensor, positions)), np.take_along_axis(each, where, 1))
    assert weights_at(None, tensor, positions) is None


@given(BATCHES)
@some_examples
@pytest.mark.slow
def test_rows_of_labels_are_concatenated_over_the_examples(batch):
    labelled, _ = batch
    size, length = labelled.shape
    ids, answers = np.arange(size * length).reshape(size, length), np.arange(size * length * 3).reshape(size, length, 3)
    tensors = [ops.convert_to_tensor(x) for x in (ids, answers.astype("float32"), labelled)]
    weights = np.arange(1, size + 1, dtype="float32")
    labels, rows, each = flat_labels(*tensors, ops.convert_to_tensor(weights))
    np.testing.assert_array_equal(numpy(labels), ids.ravel())
    np.testing.assert_array_equal(numpy(rows), answers.reshape(-1, 3))
    np.testing.assert_array_equal(numpy(rows._keras_mask), labelled.ravel())
    np.testing.assert_array_equal(numpy(each), np.repeat(weights, length))
    assert flat_labels(*tensors)[2] is None


def test_a_label_is_where_a_token_is_chosen_and_not_padding():
    masked, ids = np.array([[1, 0, 2, 1]]), np.array([[5, 6, 7, 0]])
    found = labelled_positions(ops.convert_to_tensor(masked), ops.convert_to_tensor(ids), 0)
    assert numpy(found).tolist() == [[True, False, True, False]]
