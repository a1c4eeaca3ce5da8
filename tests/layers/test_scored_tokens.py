"""Vectors of tokens that are compared."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild.layers import ScoredTokens

pytestmark = pytest.mark.backend


def test_tokens_that_are_not_compared_have_zeros_and_no_mask_goes_on(rng):
    vectors = rng.normal(size=(2, 3, 4)).astype("float32")
    scored = np.array([[1, 0, 1], [0, 2, 0]])
    layer = ScoredTokens.from_config(ScoredTokens().get_config())
    found = ops.convert_to_numpy(layer([vectors, scored]))
    np.testing.assert_array_equal(found, vectors * (scored != 0)[..., None])
    outputs = layer([keras.Input((None, 4)), keras.Input((None,), dtype="int32")])
    assert outputs.shape == (None, None, 4)
    assert layer.compute_mask([vectors, scored], [scored != 0, None]) is None
