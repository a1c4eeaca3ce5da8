"""`PretrainingLoss` against float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import cross_entropy

from keras_bert_rebuild import PretrainingLoss


@given(arrays("float32", (3, 4, 6), elements=st.floats(-100, 100, width=32)), st.integers(0, 5))
def test_the_loss_is_exact_for_logits_up_to_100(logits, label):
    labels = np.full((3, 4), label)
    expected = cross_entropy(logits, labels).mean()
    assert float(PretrainingLoss()(labels, logits)) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert float(PretrainingLoss()(labels[..., None], logits)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_the_config_round_trip_keeps_the_number_of_predictions():
    copy = PretrainingLoss.from_config(PretrainingLoss(max_predictions=7, chunk=5, reduction="sum").get_config())
    assert copy.max_predictions == 7
    assert copy.chunk == 5
    assert copy.reduction == "sum"


def test_no_predictions_at_all_are_an_error():
    with pytest.raises(ValueError, match="max_predictions must be at least 1"):
        PretrainingLoss(max_predictions=0)
    with pytest.raises(ValueError, match="chunk must be at least 1 position"):
        PretrainingLoss(chunk=0)
