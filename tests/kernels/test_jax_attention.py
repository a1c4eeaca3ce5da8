"""Attention by segment ids in Pallas, interpreted: their values and gradients are those of the plain form."""

import keras
import numpy as np
import pytest
from helpers.pretended_device import PROCESSOR, pretend

pytestmark = pytest.mark.backend("jax")

LENGTH = 128
NUMBERS = np.stack([np.repeat([1, 51, 0], [50, 70, 8]), np.full(LENGTH, 1)]).astype("int32")
MASKS = {
    "sequences": NUMBERS,
    "padding behind": NUMBERS > 0,
    "padding before": np.arange(LENGTH) >= np.array([30, 0])[:, None],
}


def compare(kernel, mask, rng):
    import jax

    from keras_bert_rebuild.layers.masks import visible_pairs

    tensors = [rng.normal(size=(2, mask.shape[1], 2, 16)).astype("float32") for _ in range(4)]

    def plain(*tensors):
        return keras.ops.dot_product_attention(*tensors, mask=visible_pairs(mask))

    def value_and_gradients(function):
        value, of = jax.vjp(function, *tensors[:3])
        return value, *of(tensors[3])

    found = value_and_gradients(lambda *tensors: kernel(*tensors, mask, interpret=True))
    for one, other in zip(found, value_and_gradients(plain), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("where", MASKS)
def test_splash_for_tpus_is_the_plain_form(where, rng):
    from keras_bert_rebuild.kernels.jax_attention import splash_attention

    compare(splash_attention, MASKS[where], rng)


@pytest.mark.slow
def test_splash_takes_lengths_that_are_no_multiple_of_a_tile(rng):
    from keras_bert_rebuild.kernels.jax_attention import splash_attention

    compare(splash_attention, NUMBERS[:, 20:120], rng)
    compare(splash_attention, MASKS["padding before"][:, :100], rng)


@pytest.mark.slow
def test_splash_is_split_over_the_devices_of_a_data_parallel(rng):
    import jax

    from keras_bert_rebuild.kernels.jax_attention import splash_attention

    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0"]))
    try:
        compare(splash_attention, NUMBERS, rng)
        x = np.zeros((2, LENGTH, 1, 16), "float32")
        assert "shard_map" in str(jax.make_jaxpr(lambda x: splash_attention(x, x, x, NUMBERS, interpret=True))(x))
    finally:
        keras.distribution.set_distribution(None)


def test_splash_is_finite_for_an_example_of_nothing_but_padding(rng):
    from keras_bert_rebuild.kernels.jax_attention import splash_attention

    x, mask = rng.normal(size=(2, LENGTH, 1, 16)).astype("float32"), np.arange(LENGTH) < np.array([LENGTH, 0])[:, None]
    assert np.isfinite(splash_attention(x, x, x, mask, interpret=True)).all()


@pytest.mark.slow
def test_flash_for_gpus_is_the_plain_form(rng):
    from keras_bert_rebuild.kernels.jax_flash import attend_by_sequences

    compare(attend_by_sequences, NUMBERS, rng)
    compare(attend_by_sequences, NUMBERS[:, 20:121], rng)


def test_a_processor_has_neither_and_short_texts_are_not_padded(monkeypatch):
    import jax

    from keras_bert_rebuild.kernels import jax_attention, jax_trials

    query = np.zeros((1, LENGTH, 2, 64), "float32")
    pretend(monkeypatch, PROCESSOR)
    assert not jax_attention.has_splash(query)
    assert not jax_trials.has_flash(query, 0.1)

    class Tpu:
        platform = "tpu"

    monkeypatch.setattr(jax, "devices", lambda: [Tpu()])
    assert jax_attention.has_splash(query)
    assert not jax_attention.has_splash(query[:, :64])
    monkeypatch.setattr(jax, "device_count", lambda: 4)
    assert not jax_attention.has_splash(query)  # XLA would not split it
