"""Poolings of sentences and the layers around them, beside plain NumPy, with padding on either side."""

import numpy as np
import pytest
from helpers.check_layer import check_layer
from keras import ops

from keras_bert_rebuild import layers

pytestmark = pytest.mark.backend

MASKS = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
LAYERS = {
    "root": layers.MaskedSquareRootPool1D,
    "position": layers.MaskedPositionPool1D,
    "skipped": lambda **settings: layers.WithoutLeadingTokens(2, **settings),
    "around": lambda **settings: layers.ResidualDense(4, "tanh", **settings),
    "around with a matrix": lambda **settings: layers.ResidualDense(3, "relu", use_bias=False, **settings),
    "cut": lambda **settings: layers.FirstFeatures(3, **settings),
}
SHAPES = {
    "root": (3, 4),
    "position": (3, 4),
    "skipped": (3, 5, 4),
    "cut": (3, 5, 3),
    "around": (3, 5, 4),
    "around with a matrix": (3, 5, 3),
}


def with_mask(x, mask):
    """A tensor that carries a mask, as a layer would give it."""
    return layers.Masked()([ops.convert_to_tensor(x), ops.convert_to_tensor(np.asarray(mask, "int32"))])


@pytest.mark.parametrize("name", LAYERS)
def test_the_contract_of_a_layer(rng, name):
    check_layer(LAYERS[name], rng.normal(size=(3, 5, 4)).astype("float32"), SHAPES[name])


@pytest.mark.parametrize("skip", [0, 1])
def test_pools_are_those_of_the_tokens_alone(rng, skip):
    x = rng.normal(size=(3, 5, 4)).astype("float32")
    inside = layers.WithoutLeadingTokens(skip)(with_mask(x, MASKS))
    root = ops.convert_to_numpy(layers.MaskedSquareRootPool1D()(inside))
    position = ops.convert_to_numpy(layers.MaskedPositionPool1D(first=1 + skip)(inside))
    for row, mask, of_root, of_position in zip(x, MASKS, root, position, strict=True):
        tokens = row[mask][skip:]
        np.testing.assert_allclose(of_root, tokens.sum(0) / len(tokens) ** 0.5, atol=1e-6)
        weights = np.arange(1, mask.sum() + 1)[skip:]
        np.testing.assert_allclose(of_position, np.average(tokens, axis=0, weights=weights), atol=1e-6)


def test_pools_without_a_mask_see_everything_and_of_padding_alone_are_zero(rng):
    x = rng.normal(size=(2, 4, 3)).astype("float32")
    np.testing.assert_allclose(ops.convert_to_numpy(layers.MaskedSquareRootPool1D()(x)), x.sum(1) / 2, atol=1e-6)
    expected = np.average(x, axis=1, weights=[1, 2, 3, 4])
    np.testing.assert_allclose(ops.convert_to_numpy(layers.MaskedPositionPool1D()(x)), expected, atol=1e-6)
    for layer in (layers.MaskedSquareRootPool1D(), layers.MaskedPositionPool1D()):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(with_mask(x, np.zeros((2, 4))))), 0)


def test_settings_out_of_range_are_refused():
    for make, message in (
        (lambda: layers.MaskedPositionPool1D(first=0), "first must be at least 1; got 0"),
        (lambda: layers.WithoutLeadingTokens(-1), "count must be at least 0; got -1"),
        (lambda: layers.FirstFeatures(5)(np.zeros((1, 4), "float32")), "width must be from 1 to 4, .*; got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
