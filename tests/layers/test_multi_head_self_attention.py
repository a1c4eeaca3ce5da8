"""Masks of attention."""

import keras
import numpy as np
import pytest

from keras_bert_rebuild.layers import MultiHeadSelfAttention

pytestmark = pytest.mark.backend


def test_packed_sequences_do_not_see_one_another(rng):
    layer = MultiHeadSelfAttention(2)
    first, second = (rng.normal(size=(1, length, 8)).astype("float32") for length in (3, 4))
    numbers = np.array([[1, 1, 1, 4, 4, 4, 4]])
    packed = layer(np.concatenate([first, second], axis=1), mask=numbers)
    apart = [keras.ops.convert_to_numpy(layer(each)) for each in (first, second)]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(packed), np.concatenate(apart, axis=1), atol=1e-6)


def test_a_mask_with_three_axes_is_refused_and_not_taken_for_a_mask_of_heads(rng):
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    with pytest.raises(ValueError, match=r"\(batch, 1, length, length\); got shape \(2, 5, 5\)"):
        MultiHeadSelfAttention(2)(x, mask=np.ones((2, 5, 5), bool))
