"""The model equals BERT in plain NumPy, outputs and gradients."""

import keras
import numpy as np
import pytest
from helpers.reference import encode, logits, pretraining_loss, softmax, weights_of
from helpers.small import BLOCKS, HEADS, compiled, small_batch, small_model, spread

pytestmark = pytest.mark.backend


def test_probabilities_equal_the_reference(rng):
    model = spread(small_model(), rng)
    (ids, segments, chosen), _ = small_batch(rng)
    mlm, nsp = model.predict((ids, segments, chosen), verbose=0)
    expected_mlm, expected_nsp = logits(weights_of(model), ids, segments, HEADS, BLOCKS)
    real = ids != 0
    np.testing.assert_allclose(mlm[real], softmax(expected_mlm)[real], atol=1e-5)
    np.testing.assert_allclose(nsp, softmax(expected_nsp), atol=1e-5)


def test_features_of_all_blocks_equal_the_reference(rng):
    model = spread(keras.Model(*small_model(training=False, output_layer_num=BLOCKS)), rng)
    (ids, segments, _), _ = small_batch(rng)
    expected = np.concatenate(encode(weights_of(model), ids, segments, HEADS, BLOCKS), axis=-1)
    got = model.predict((ids, segments), verbose=0)
    np.testing.assert_allclose(got[ids != 0], expected[ids != 0], atol=1e-5)


def test_an_explicit_mask_replaces_the_padding_id(rng):
    model = spread(small_model(padding_mask=True), rng)
    (ids, segments, chosen), _ = small_batch(rng, padding=0)
    ids[:, 3] = 0  # a real token with the padding id
    mask = np.ones_like(ids)
    mask[:, -4:] = 0
    expected, _ = logits(weights_of(model), ids, segments, HEADS, BLOCKS, mask != 0)
    got = model.predict((ids, segments, chosen, mask), verbose=0)[0]
    np.testing.assert_allclose(got[mask != 0], softmax(expected)[mask != 0], atol=1e-5)


@pytest.mark.parametrize("max_predictions", [None, 5])
def test_gradients_equal_finite_differences_of_the_reference(rng, max_predictions):
    model = spread(small_model(), rng)
    x, y = small_batch(rng)
    before = weights_of(model)
    # A step of plain gradient descent at rate 1 changes the weights by their gradient.
    compiled(model, optimizer=keras.optimizers.SGD(1.0), max_predictions=max_predictions).train_on_batch(x, y)
    after = weights_of(model)
    loss = lambda weights: sum(pretraining_loss(weights, x, y, HEADS, BLOCKS))  # noqa: E731
    for path, value in before.items():
        direction = rng.normal(size=value.shape)
        direction /= np.linalg.norm(direction)
        step = 1e-5
        up, down = ({**before, path: value + sign * step * direction} for sign in (1, -1))
        expected = (loss(up) - loss(down)) / (2 * step)
        assert np.sum((value - after[path]) * direction) == pytest.approx(expected, abs=2e-5, rel=1e-3), path
