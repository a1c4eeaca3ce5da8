"""A fixed number of chosen positions of every row, against plain NumPy."""

import numpy as np
import pytest
from helpers.labelled_batches import BATCHES, of_batches
from hypothesis import given
from keras import ops

from keras_bert_rebuild.layers.masks import at_positions, nan_if_left_out, slots_of

pytestmark = pytest.mark.backend


def in_slots(labelled, slots):
    """The positions of the labels in order, then the others in order, cut to the number of slots."""
    return np.argsort(~labelled, axis=1, kind="stable")[:, :slots]


@pytest.mark.slow
@given(BATCHES)
@of_batches
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
