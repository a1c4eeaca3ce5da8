"""Gathering and aligning at the masked positions, against plain NumPy, for batches of every kind."""

import keras
import numpy as np
import pytest
from helpers.labelled_batches import BATCHES, of_batches
from hypothesis import given
from keras import ops

from keras_bert_rebuild.layers.masks import at_positions, slots_of
from keras_bert_rebuild.models.masked_positions import flat_labels, labelled_positions, weights_at

pytestmark = pytest.mark.backend


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@given(BATCHES)
@of_batches
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
@of_batches
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
