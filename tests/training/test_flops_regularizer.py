"""The FLOPS regulariser and its schedule."""

import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild.training.flops_regularizer import FlopsRegularizer, flops


def test_the_price_is_the_square_of_the_mean_weight_of_every_word(rng):
    vectors = np.maximum(rng.normal(size=(5, 7)), 0).astype("float32")
    assert float(flops(ops.convert_to_tensor(vectors))) == pytest.approx(
        sum(np.mean(column) ** 2 for column in vectors.T), rel=1e-5
    )


def test_the_rate_grows_with_the_square_of_the_step_and_only_in_training(rng):
    vectors = np.maximum(rng.normal(size=(6, 4)), 0).astype("float32")  # two groups of three
    layer = FlopsRegularizer(3, queries=0.5, documents=0.25, query_l1=0.125, steps=4)
    queries, documents = vectors[[0, 3]], vectors[[1, 2, 4, 5]]
    price = 0.5 * np.sum(queries.mean(axis=0) ** 2) + 0.25 * np.sum(documents.mean(axis=0) ** 2)
    price += 0.125 * queries.sum(axis=1).mean()
    for rate in (0.0, 1 / 16, 4 / 16, 9 / 16, 1.0, 1.0):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(vectors, training=True)), vectors)
        (loss,) = layer.losses
        assert float(loss) == pytest.approx(rate * price, rel=1e-5)
    layer(vectors)
    assert layer.losses == []
    assert int(layer.step) == 6
    assert layer.trainable_weights == []
    assert FlopsRegularizer.from_config(layer.get_config()).get_config() == layer.get_config()
