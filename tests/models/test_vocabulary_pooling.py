"""Weights of words pooled over the tokens of a text: values and gradients against the plain formula."""

import numpy as np
import pytest
from helpers.gradients import value_and_gradients
from keras import ops

from keras_bert_rebuild.models.vocabulary_pooling import max_logits, sums_of_weights

pytestmark = pytest.mark.backend


@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_values_and_gradients_are_those_of_the_logits_of_all_tokens(rng, pooling):
    features = rng.normal(size=(6, 5, 3)).astype("float32")  # one and a half parts
    table, bias = rng.normal(size=(11, 3)).astype("float32"), rng.normal(size=11).astype("float32")
    real = np.ones((6, 5), "float32")
    real[1, 3:] = real[5, :2] = 0

    def pooled(features, table, bias):
        if pooling == "max":
            return ops.log1p(ops.maximum(max_logits(features, table, bias, ops.convert_to_tensor(real)), 0.0))
        return sums_of_weights(features, table, bias, ops.convert_to_tensor(real), 2)

    def plain(features, table, bias):
        logits = ops.einsum("bld,vd->blv", features, table) + bias
        weights = ops.log1p(ops.maximum(logits, 0.0)) * ops.convert_to_tensor(real)[..., None]
        return ops.max(weights, axis=1) if pooling == "max" else ops.sum(ops.log1p(weights), axis=1)

    upstream = rng.normal(size=(6, 11)).astype("float32")
    for ours, theirs in zip(
        value_and_gradients(pooled, upstream, features, table, bias),
        value_and_gradients(plain, upstream, features, table, bias),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
