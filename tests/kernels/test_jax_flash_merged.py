"""Self-attention whose queries, keys and values are one product, interpreted: the same function as three products and attention."""

import functools
import re
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from helpers.kernel_checks import PROCESSOR, pretend
from kernels.test_jax_flash import PACKED, PADDED, SEED, launches, lowers_to_triton, training_step_for_cuda

pytestmark = pytest.mark.backend("jax")

HIDDEN = 20
# Mask, rate, heads, width, side of a block, whether there are biases.
CASES = {
    "sequences": (PACKED, 0.1, 2, 16, 32, True),
    "padding": (PADDED, 0.1, 2, 16, 32, True),
    "without biases": (PACKED, 0.1, 2, 16, 32, False),
    "without dropout": (PACKED, 0.0, 2, 16, 16, True),
    "a width that is no power of two": (PADDED, 0.1, 1, 24, 64, True),
    "whole blocks": (PACKED[:, :64], 0.5, 3, 16, 32, True),
}


def dense(dtype, kernel, bias=None):
    return SimpleNamespace(compute_dtype=dtype, kernel=kernel, bias=bias)


def merged(heads, mask, rate, side, dtype, inputs, weights):
    from keras_bert_rebuild.kernels import jax_flash_merged
    from keras_bert_rebuild.kernels.jax_flash_blocks import Blocks

    denses = [dense(dtype, *pair) for pair in weights]
    return jax_flash_merged.attend_to_inputs(inputs, denses, heads, mask, rate, SEED, Blocks(side, side), interpret=True)


def apart(heads, mask, rate, side, dtype, inputs, weights):
    """The form that stores its scores, of three products."""
    import jax.numpy as jnp
    from keras import ops

    from keras_bert_rebuild.kernels import jax_dropout
    from keras_bert_rebuild.layers.masks import visible_pairs

    products = [sum(map(jnp.asarray, bias), inputs @ kernel) for kernel, *bias in weights]
    tensors = [jnp.reshape(product, (*inputs.shape[:2], heads, -1)) for product in products]
    if rate:
        return jax_dropout.attention_with_dropout(*tensors, mask, rate, SEED)
    return ops.dot_product_attention(*tensors, mask=visible_pairs(mask))


def both_passes(form, *options, inputs, weights, upstream):
    """Outputs, and gradients of inputs and weights."""
    import jax

    outputs, gradients = jax.vjp(functools.partial(form, *options), inputs, weights)
    return [np.asarray(array, "float32") for array in jax.tree.leaves((outputs, gradients(upstream)))]


def numbers(rng, mask, heads, width, biased, dtype="float32"):
    import jax.numpy as jnp

    shapes = (HIDDEN, heads * width), (heads * width,)
    weights = [[jnp.asarray(rng.standard_normal(shape) / 3, "float32") for shape in shapes[: 1 + biased]] for _ in "QKV"]
    inputs, upstream = (jnp.asarray(rng.standard_normal((*mask.shape, *rest)), dtype) for rest in ((HIDDEN,), (heads, width)))
    return {"inputs": inputs, "weights": weights, "upstream": upstream}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_has_the_values_and_gradients_of_three_products_for_the_same_seed(case, rng):
    mask, rate, heads, width, side, biased = CASES[case]
    given = numbers(rng, mask, heads, width, biased)
    found, expected = (both_passes(form, heads, mask, rate, side, "float32", **given) for form in (merged, apart))
    assert len(found) == 2 + 3 * (1 + biased)
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        if index == 5 and biased:  # a bias of keys changes no probability: its gradient is what rounding leaves of zero
            assert max(np.abs(one).max(), np.abs(other).max()) < 1e-4
        else:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * max(1, np.abs(other).max()))


def test_gradients_of_biases_are_sums_in_float32(rng):
    """Of equal numbers: in bfloat16 a sum of 64s stops at 16,384."""
    given = numbers(rng, np.ones((2, 512)), 1, 16, True, "bfloat16")
    given["upstream"] = np.full((2, 512, 1, 16), 64, "bfloat16")
    of_value = both_passes(merged, 1, np.ones((2, 512), "int32"), 0.0, 64, "bfloat16", **given)[-1]
    np.testing.assert_allclose(of_value, 2 * 512 * 64, rtol=2e-3)


@pytest.mark.parametrize(("dtype", "width", "length", "biased"), [("bfloat16", 64, 512, True), ("float32", 64, 100, False)])
def test_it_lowers_to_triton_for_cuda(dtype, width, length, biased):
    """Without a GPU: that Pallas translates all of it to Triton. Not that Triton compiles it, nor what it computes there."""
    import jax

    from keras_bert_rebuild.kernels import jax_flash_merged

    lowers_to_triton()

    def step(inputs, weights, mask, seed):
        def loss(inputs, weights):
            denses = [dense(dtype, *pair) for pair in weights]
            return jax_flash_merged.attend_to_inputs(inputs, denses, 3, mask, 0.1, seed).astype("float32").sum()

        return jax.value_and_grad(loss, (0, 1))(inputs, weights)

    def shaped(shape, dtype="float32"):
        return jax.ShapeDtypeStruct(shape, dtype)

    weights = [[shaped(shape) for shape in ((HIDDEN, 3 * width), (3 * width,))[: 1 + biased]] for _ in "QKV"]
    arguments = shaped((2, length, HIDDEN), dtype), weights, shaped((2, length), "int32"), shaped((2,), "uint32")
    targets = "__gpu$xla.gpu.triton", "triton_kernel_call_ffi"
    unchecked = [jax.export.DisabledSafetyCheck.custom_call(name) for name in targets]
    exported = jax.export.export(jax.jit(step), platforms=["cuda"], disabled_checks=unchecked)(*arguments)
    assert len(set(re.findall(r"attention_\w+_kernel", exported.mlir_module()))) == 3
    shapes = [one.shape for pair in weights for one in pair]
    assert [aval.shape for aval in exported.out_avals] == [(), (2, length, HIDDEN), *shapes]


def pass_trial(monkeypatch):
    """From now on a GPU would compute attention in this way."""
    from keras_bert_rebuild.kernels import jax_trials

    monkeypatch.setattr(jax_trials, "has_merged_flash", lambda dense, heads, dropout: True)


@pytest.mark.slow
@pytest.mark.parametrize(("remat", "kernels"), [(False, 6), (True, 8)], ids=["", "rematerialised"])
def test_a_training_step_has_three_kernels_and_one_product_of_the_inputs_a_block(remat, kernels, monkeypatch):
    pass_trial(monkeypatch)
    program = training_step_for_cuda(remat)
    assert launches(program) == kernels
    assert "2x2x48x48" not in program
    assert len(re.findall(r"dot_general.*-> tensor<2x48x96xbf16>", program)) == 2 + 2 * remat


@pytest.mark.slow
def test_the_layer_has_the_values_of_the_plain_form_and_does_without_for_what_the_kernel_does_not_take(monkeypatch, rng):
    from keras_bert_rebuild.kernels import jax_flash_merged
    from keras_bert_rebuild.layers import MultiHeadSelfAttention
    from keras_bert_rebuild.layers.masks import visible_pairs

    pretend(monkeypatch, PROCESSOR)
    inputs, mask = keras.ops.convert_to_tensor(rng.standard_normal((2, 70, 32)), "float32"), keras.ops.convert_to_tensor(PACKED)
    plain, used = MultiHeadSelfAttention(2, attention_dropout=0.1), []
    plain.build(inputs.shape)
    shape, without = plain(inputs, mask=mask, training=True).shape, plain(inputs, mask=mask, training=False)
    pass_trial(monkeypatch)
    interpreted = functools.partial(jax_flash_merged.attend_to_inputs, interpret=True)
    monkeypatch.setattr(jax_flash_merged, "attend_to_inputs", lambda *given: used.append(given) or interpreted(*given))

    def outputs(attention_dropout=0.1, mask=mask, training=True, **options):
        layer = MultiHeadSelfAttention(2, attention_dropout=attention_dropout, **options)
        layer.build(inputs.shape)
        layer.set_weights(plain.get_weights())
        used.clear()
        return layer(inputs, mask=mask, training=training)

    found = outputs()
    assert used
    assert found.shape == shape
    # Another seed drops other probabilities; without dropout the values are the same.
    np.testing.assert_allclose(outputs(training=False), without, rtol=0, atol=2e-6)
    assert used
    for options in (
        {"rotary_theta": 1e4}, {"window": 3}, {"history_only": True}, {"activation": "gelu"},
        {"mask": visible_pairs(mask)}, {"mask": mask > 0, "training": False},
    ):  # fmt: skip
        outputs(**options)
        assert not used, options


@pytest.mark.slow
def test_the_trial_tells_a_right_kernel_from_one_that_forgets_its_biases(monkeypatch):
    from keras_bert_rebuild.kernels import jax_flash_merged, jax_trials

    right = functools.partial(jax_flash_merged.attend_to_inputs, interpret=True)

    def wrong(inputs, denses, *others):
        return right(inputs, [dense._replace(bias=0 * dense.bias) for dense in denses], *others)

    for drops in (True, False):
        for form, use_bias, passes in ((right, True, True), (right, False, True), (wrong, True, False)):
            monkeypatch.setattr(jax_flash_merged, "attend_to_inputs", form)
            jax_trials.merged_flash_is_right.cache_clear()
            if passes:
                assert jax_trials.merged_flash_is_right("float32", 16, drops, use_bias)
            else:
                with pytest.warns(UserWarning, match="attention of one product .* computed outputs that differ"):
                    assert not jax_trials.merged_flash_is_right("float32", 16, drops, use_bias)
    jax_trials.merged_flash_is_right.cache_clear()
