"""Log-probabilities of labels, chunk by chunk, against float64."""

import numpy as np
import pytest
from helpers.reference import cross_entropy
from keras import ops

from keras_bert_rebuild.models.chunked_cross_entropy import LABEL_COLUMN, label_log_probabilities

pytestmark = pytest.mark.backend


def answers(features, table, bias, labels, chunk):
    tensors = [ops.convert_to_tensor(np.asarray(x, dtype)) for x, dtype in ((features, "float32"), (table, "float32"))]
    return ops.convert_to_numpy(
        label_log_probabilities(*tensors, ops.convert_to_tensor(bias), ops.convert_to_tensor(np.int32(labels)), chunk)
    )


@pytest.mark.parametrize("chunk", [1, 4, 7, 20])
def test_columns_are_the_label_and_the_most_probable_token(rng, chunk):
    features, table, bias = rng.normal(size=(7, 5)), rng.normal(size=(11, 5)), rng.normal(size=11).astype("float32")
    scores = features @ table.T + bias
    labels = np.where(np.arange(7) < 3, scores.argmax(-1), rng.integers(0, 11, 7))
    got = answers(features, table, bias, labels, chunk)
    np.testing.assert_allclose(-got[:, LABEL_COLUMN], cross_entropy(scores, labels), atol=1e-5)
    missed = labels != scores.argmax(-1)
    np.testing.assert_array_equal(got.argmax(-1) != LABEL_COLUMN, missed)
    np.testing.assert_allclose(-got[missed, 1 - LABEL_COLUMN], cross_entropy(scores, scores.argmax(-1))[missed], atol=1e-5)


def test_the_first_of_equal_tokens_is_the_prediction():
    got = answers(np.ones((2, 1)), np.ones((3, 1)), np.zeros(3, "float32"), [0, 1], 2)
    assert got.argmax(-1).tolist() == [LABEL_COLUMN, 1 - LABEL_COLUMN]


def test_logits_of_a_thousand_are_exact():
    got = answers(np.full((1, 1), 1000.0), np.array([[1.0], [-1.0]]), np.zeros(2, "float32"), [1], 1)
    assert got[0, LABEL_COLUMN] == -2000.0
