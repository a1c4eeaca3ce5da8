"""The mean of losses over the positions that count."""

import numpy as np
import pytest

from keras_bert_rebuild.training.distilled_loss import DistilledLoss


def test_what_does_not_count_may_be_anything():
    loss = DistilledLoss()(np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), np.array([[1.0, np.inf, 2.0], [np.nan, -1.0, 6.0]]))
    assert float(loss) == pytest.approx(3.0)


def test_examples_have_weights():
    counts, values = np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [10.0, 5.0]])
    assert float(DistilledLoss()(counts, values, np.array([1.0, 0.5]))) == pytest.approx((1 + 2 + 5) / 2.5)


def test_nothing_that_counts_is_a_loss_of_0():
    assert float(DistilledLoss()(np.zeros((1, 2)), np.ones((1, 2)))) == 0.0
