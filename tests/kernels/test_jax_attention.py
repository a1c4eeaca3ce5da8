"""Attention on JAX by segment ids (Pallas, interpreted), pairs or key lengths (cuDNN) equals the plain form."""

import keras
import numpy as np
import pytest
from helpers.kernel_checks import PROCESSOR, chosen_kernel, pretend
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild.layers import MultiHeadSelfAttention

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


# Which tokens of two examples are not padding.
KEY_MASKS = {
    "no padding": ([1, 1, 1, 1, 1], [1, 1, 1, 1, 1]),
    "behind": ([1, 1, 1, 0, 0], [1, 1, 1, 1, 0]),
    "before": ([0, 0, 1, 1, 1], [1, 1, 1, 1, 1]),
    "between": ([1, 0, 1, 0, 1], [1, 1, 1, 0, 0]),
}


@pytest.mark.parametrize("name", ["cudnn_by_pairs", "cudnn_by_key_lengths"])
@pytest.mark.parametrize("where", KEY_MASKS)
def test_values_and_gradients_equal_those_with_the_mask(rng, where, name):
    import jax

    from keras_bert_rebuild.kernels import jax_attention

    tensors = [rng.normal(size=(2, 5, 2, 8)).astype("float32") for _ in range(3)]
    mask, weights = np.array(KEY_MASKS[where], bool), rng.normal(size=(2, 5, 2, 8)).astype("float32")

    def by_kernel(*tensors):
        return (getattr(jax_attention, name)(*tensors, mask, implementation="xla") * weights).sum()

    def by_mask(*tensors):
        return (keras.ops.dot_product_attention(*tensors, mask=mask[:, None, None, :]) * weights).sum()

    got, expected = (jax.value_and_grad(function, argnums=(0, 1, 2))(*tensors) for function in (by_kernel, by_mask))
    assert got[0] == pytest.approx(float(expected[0]), rel=1e-6)
    for one, other in zip(got[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_an_example_with_only_padding_is_finite(rng):
    from keras_bert_rebuild.kernels.jax_attention import cudnn_by_key_lengths

    x = rng.normal(size=(2, 3, 1, 8)).astype("float32")
    answer = cudnn_by_key_lengths(x, x, x, np.array([[1, 1, 0], [0, 0, 0]], bool), implementation="xla")
    assert np.isfinite(answer).all()


@pytest.mark.slow
@pytest.mark.parametrize("remat", [False, True])
def test_a_training_step_is_the_same_without_a_branch(rng, monkeypatch, remat):
    from keras_bert_rebuild.kernels import jax_attention

    x, y = small_batch(rng)
    weights, steps, used = small_model(transformer_num=1).get_weights(), [], []
    by_pairs = jax_attention.cudnn_by_pairs

    def attend(*tensors):
        used.append(1)
        return by_pairs(*tensors, implementation="xla")

    monkeypatch.setattr(jax_attention, "cudnn_by_pairs", attend)
    for has_kernel in (False, True):
        monkeypatch.setattr(jax_attention, "has_fused_kernel", lambda query, has_kernel=has_kernel: has_kernel)
        model = compiled(small_model(transformer_num=1), max_predictions=4, remat=remat)
        model.set_weights(weights)
        steps.append((model.train_on_batch(x, y)[0], model.get_weights()))
        assert bool(used) == has_kernel
    assert steps[1][0] == pytest.approx(steps[0][0], rel=1e-6)
    for one, other in zip(steps[1][1], steps[0][1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("name", ["cudnn_by_pairs", "cudnn_by_key_lengths"])
def test_no_kernel_branches_on_where_the_padding_is(name):
    import jax

    from keras_bert_rebuild.kernels import jax_attention

    x, mask = np.zeros((2, 4, 1, 8), "float32"), np.ones((2, 4), bool)
    program = str(jax.make_jaxpr(lambda x, mask: getattr(jax_attention, name)(x, x, x, mask, implementation="xla"))(x, mask))
    assert "cond[" not in program


def test_a_mask_of_pairs_is_made_for_even_lengths_where_it_is_smaller_than_the_keys(monkeypatch):
    from keras_bert_rebuild.kernels import jax_attention, jax_trials

    monkeypatch.setattr(jax_attention, "has_fused_kernel", lambda query: True)

    def chosen(length, mask="bool"):
        query = np.zeros((1, length, 2, 8), "float32")
        layer = MultiHeadSelfAttention(2)
        name = chosen_kernel(MultiHeadSelfAttention.attend, layer, query, query, query, np.ones((1, length), mask))
        return name.removeprefix("jax_attention.")

    assert [chosen(length) for length in (32, 33, 34)] == ["attend_by_pairs", "attend_by_key_lengths", "attend_by_key_lengths"]
    assert chosen(32, "int32") == "attend_by_pairs"
    monkeypatch.setattr(jax_trials, "has_flash", lambda query, dropout: True)
    assert [chosen(32, mask) for mask in ("int32", "bool")] == ["attend_by_sequences", "attend_by_pairs"]


def test_a_processor_has_no_kernel_of_cudnn():
    from keras_bert_rebuild.kernels import traits
    from keras_bert_rebuild.kernels.jax_attention import has_fused_kernel

    if traits.runs_on_accelerator():
        pytest.skip("this is no processor")
    assert not has_fused_kernel(keras.ops.zeros((1, 2, 1, 64), "bfloat16"))


def test_a_gpu_that_is_only_compiled_for_has_the_kernels_of_its_generation_without_a_trial(monkeypatch):
    from keras_bert_rebuild.kernels import jax_devices, jax_trials

    pretend(monkeypatch, PROCESSOR)
    monkeypatch.setattr(jax_trials, "_fault", lambda *_: pytest.fail("a trial cannot run"))
    query = keras.KerasTensor((2, 16, 2, 32), "bfloat16")

    def kernels():
        jax_trials.flash_is_right.cache_clear()
        return jax_devices.is_on_cuda(), jax_trials.has_flash(query, 0.1)

    assert kernels() == (False, False)
    with jax_devices.compiling_for_cuda(9.0):
        assert kernels() == (True, True)
        with jax_devices.compiling_for_cuda(7.0):
            assert kernels() == (True, False)
        assert kernels() == (True, True)
    assert kernels() == (False, False)
