"""Attention with dropout in one kernel for GPUs, interpreted: the same function as the form that stores its scores."""

import contextlib
import functools
import re
from importlib.util import find_spec

import keras
import numpy as np
import pytest
from helpers.kernel_checks import PROCESSOR, chosen_kernel, gpu, pretend
from helpers.other_process import printed_json

pytestmark = pytest.mark.backend("jax")

SEED = np.array([3, 1], "uint32")
# Two rows of 70 tokens: with blocks of 32, two and a part.
PADDED = np.arange(70) < np.array([70, 41])[:, None]
BEFORE = np.arange(70) >= np.array([0, 37])[:, None]
PACKED = np.stack([np.repeat([1, 21, 57, 0], [20, 36, 8, 6]), np.ones(70, int)]).astype("int32")
# Mask, rate, heads, width, blocks of queries and of keys.
CASES = {
    "padding behind": (PADDED, 0.1, 2, 16, (32, 32)),
    "padding before": (BEFORE, 0.1, 2, 16, (32, 16)),
    "sequences": (PACKED, 0.1, 2, 16, (16, 32)),
    "half is dropped": (PACKED, 0.5, 1, 16, (64, 64)),
    "next to nothing is dropped": (PADDED, 1e-9, 1, 16, (64, 64)),
    "one short block": (PADDED[:, 34:43], 0.1, 3, 32, (64, 64)),
    "a width that is no power of two": (PADDED, 0.1, 1, 24, (32, 32)),
    "whole blocks": (PACKED[:, :64], 0.1, 1, 128, (32, 32)),
}


def attend(form, tensors, mask, rate=0.1, seed=SEED, blocks=None):
    """Outputs, and gradients of queries, keys and values, by `fused` or `plain`."""
    return [np.asarray(array, "float32") for array in compiled(form, rate, blocks)(*tensors, mask, seed)]


@functools.cache
def compiled(form, rate, blocks):
    import jax

    from keras_bert_rebuild.kernels import jax_dropout, jax_flash, jax_flash_blocks

    attention = jax_dropout.attention_with_dropout
    if form == "fused":
        blocks = blocks and jax_flash_blocks.Blocks(*blocks)
        attention = functools.partial(jax_flash.attention_with_dropout, blocks=blocks, interpret=True)

    @jax.jit
    def run(query, key, value, upstream, mask, seed):
        outputs, gradients = jax.vjp(lambda *tensors: attention(*tensors, mask, rate, seed), query, key, value)
        return outputs, *gradients(upstream)

    return run


def normal(rng, shape, dtype="float32"):
    import jax.numpy as jnp

    return [jnp.asarray(rng.standard_normal(shape), dtype) for _ in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_has_the_values_and_gradients_of_the_plain_form_for_the_same_seed(case, rng):
    mask, rate, heads, width, blocks = CASES[case]
    tensors = normal(rng, (2, mask.shape[1], heads, width))
    for one, other in zip(attend("fused", tensors, mask, rate, blocks=blocks), attend("plain", tensors, mask, rate), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 2e-2), ("float16", 2e-3)])
def test_half_precision_is_as_near_to_float32_as_the_plain_form(dtype, tolerance, rng):
    tensors = normal(rng, (2, 70, 2, 16), dtype)
    exact = attend("plain", [tensor.astype("float32") for tensor in tensors], PACKED)
    for form in ("fused", "plain"):
        for one, other in zip(attend(form, tensors, PACKED), exact, strict=True):
            assert np.abs(one - other).max() < tolerance * max(1, np.abs(other).max())


def test_there_may_be_more_keys_than_queries(rng):
    query, key, value, upstream = normal(rng, (2, 70, 1, 16))
    tensors = query[:, :9], key, value, upstream[:, :9]
    for one, other in zip(attend("fused", tensors, PADDED, blocks=(32, 32)), attend("plain", tensors, PADDED), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_an_example_of_nothing_but_padding_attends_to_all_of_it(rng):
    tensors, mask = normal(rng, (2, 20, 1, 16)), np.arange(20) < np.array([20, 0])[:, None]
    for one, other in zip(attend("fused", tensors, mask), attend("plain", tensors, np.ones_like(mask)), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mask", [PADDED, BEFORE], ids=["behind", "before"])
def test_blocks_of_padding_are_not_computed(mask, rng):
    """A NaN in one would be in every output."""
    query, key, value, upstream = normal(rng, (2, 70, 1, 16))
    blocks = np.repeat([mask[:, start : start + 16].any(axis=1) for start in range(0, 70, 16)], 16, axis=0).T[:, :70]
    key, value = (np.where(blocks[:, :, None, None], array, np.nan) for array in (key, value))
    assert np.isnan(key).any()
    outputs, of_query, *_ = attend("fused", (query, key, value, upstream), mask, blocks=(16, 16))
    assert np.isfinite(outputs).all()
    assert np.isfinite(of_query).all()


def test_no_array_of_a_step_has_the_size_of_the_scores(rng):
    import jax

    tensors, mask = normal(rng, (2, 64, 2, 16)), np.ones((2, 64), bool)
    programs = {form: str(jax.make_jaxpr(compiled(form, 0.1, (16, 16)))(*tensors, mask, SEED)) for form in ("plain", "fused")}
    assert {form: "[2,2,64,64]" in program for form, program in programs.items()} == {"plain": True, "fused": False}


@pytest.mark.parametrize(("dtype", "width", "length"), [("bfloat16", 64, 512), ("float32", 64, 100), ("float16", 128, 40)])
def test_it_lowers_to_triton_for_cuda(dtype, width, length):
    """Without a GPU: that Pallas translates all of it to Triton. Not that Triton compiles it, nor what it computes there."""
    import jax

    from keras_bert_rebuild.kernels import jax_flash

    lowers_to_triton()

    def step(query, key, value, mask, seed):
        def loss(*tensors):
            return jax_flash.attention_with_dropout(*tensors, mask, 0.1, seed).astype("float32").sum()

        return jax.value_and_grad(loss, (0, 1, 2))(query, key, value)

    tensor, target = jax.ShapeDtypeStruct((2, length, 3, width), dtype), "__gpu$xla.gpu.triton"
    arguments = tensor, tensor, tensor, jax.ShapeDtypeStruct((2, length), "int32"), jax.ShapeDtypeStruct((2,), "uint32")
    unchecked = [jax.export.DisabledSafetyCheck.custom_call(name) for name in (target, "triton_kernel_call_ffi")]
    exported = jax.export.export(jax.jit(step), platforms=["cuda"], disabled_checks=unchecked)(*arguments)
    assert set(re.findall(r"attention_\w+_kernel", exported.mlir_module())) == {
        f"attention_{of}_kernel" for of in ("forward", "query", "key")
    }
    assert [aval.shape for aval in exported.out_avals] == [(), *3 * [tensor.shape]]


@pytest.mark.slow
@pytest.mark.parametrize(("remat", "kernels"), [(False, 6), (True, 8)], ids=["", "rematerialised"])
def test_a_training_step_on_packed_rows_has_three_kernels_a_block_and_no_scores(remat, kernels, monkeypatch):
    from keras_bert_rebuild.kernels import jax_trials

    monkeypatch.setattr(jax_trials, "has_flash", lambda query, dropout: True)
    program = training_step_for_cuda(remat)
    assert launches(program) == kernels
    assert len(re.findall(TRITON_CALL, program)) == 3 + remat  # however many blocks there are: each is translated once
    assert "2x2x48x48" not in program


TRITON_CALL = r"@(?:__gpu\$xla\.gpu\.triton|triton_kernel_call_ffi)\("


def launches(program):
    """How often a lowered program calls Triton's kernels, in its functions and the functions that they call."""
    bodies = dict(re.findall(r"func\.func \w+ @(\w+)(.*?)(?=func\.func|\Z)", program, re.DOTALL))

    def count(name):
        called = re.findall(r"\bcall @(\w+)\(", bodies[name])
        return len(re.findall(TRITON_CALL, bodies[name])) + sum(map(count, called))

    return count("main")


def training_step_for_cuda(remat):
    """The program of a step of two blocks of width 32 on two packed rows of 48 tokens, lowered for CUDA."""
    import jax

    from keras_bert_rebuild import AdamW, BertConfig, build_model, compile_model

    lowers_to_triton()
    keras.config.set_dtype_policy("mixed_bfloat16")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = build_model(BertConfig(vocab_size=50, max_position_embeddings=48, **sizes), ["mlm"], packed=True)
    optimizer = AdamW(1e-4)
    compile_model(model, optimizer=optimizer, max_predictions=4, metrics=None, remat=remat)
    optimizer.build(model.trainable_variables)
    parts = model.trainable_variables, model.non_trainable_variables, optimizer.variables, model.metrics_variables
    state = tuple([variable.value for variable in part] for part in parts)
    ids = np.ones((2, 48), "int32")
    batch = (ids, 0 * ids, ids * (np.arange(48) < 4), ids), ids[..., None]
    return jax.jit(model.train_step).trace(state, batch).lower(lowering_platforms=("cuda",)).as_text()


def lowers_to_triton():
    """Skip a test if this JAX needs its plugin for CUDA to lower to Triton."""
    import jax

    plugins = map(find_spec, ("jax_cuda12_plugin", "jax_cuda13_plugin"))
    if tuple(map(int, jax.__version__.split(".")[:3])) > (0, 10, 2) and not any(plugins):
        pytest.skip("this JAX compiles Triton while it lowers, in its plugin for CUDA")


@pytest.fixture
def on_a_gpu(monkeypatch):
    """The processor is a GPU in the eyes of the condition, and interprets the kernel."""
    from keras_bert_rebuild.kernels import jax_flash, jax_trials

    pretend(monkeypatch, gpu())
    monkeypatch.setattr(jax_flash, "attention_with_dropout", functools.partial(jax_flash.attention_with_dropout, interpret=True))
    jax_trials.flash_is_right.cache_clear()
    yield monkeypatch
    jax_trials.flash_is_right.cache_clear()


def dropped(rng, mask=PACKED, causal=False):
    """The name of the kernel at the seam, and its outputs in a step that is traced."""
    import jax

    from keras_bert_rebuild.layers import MultiHeadSelfAttention

    keras.utils.set_random_seed(3)
    layer, tensors = MultiHeadSelfAttention(1, attention_dropout=0.1, history_only=causal), normal(rng, (2, 70, 1, 16))[:3]
    layer.build((2, 70, 16))
    form = chosen_kernel(MultiHeadSelfAttention.attend, layer, *tensors, mask, True)
    attend = jax.jit(lambda *tensors: layer.attend(*tensors, mask, True))
    return form, np.asarray(attend(*tensors))


def test_a_gpu_has_it_at_the_seam_once_a_trial_has_passed_with_the_numbers_of_the_plain_form(on_a_gpu):
    form, outputs = dropped(np.random.default_rng(1))
    assert form == "jax_attention.attend_in_flash"
    pretend(on_a_gpu, PROCESSOR)
    plain_form, expected = dropped(np.random.default_rng(1))
    assert plain_form == "jax_attention.attend_with_dropout"
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)


def test_what_the_kernel_does_not_take_has_the_plain_form(on_a_gpu, rng):
    from keras_bert_rebuild.kernels import jax_trials

    on_a_gpu.setattr(jax_trials, "_fault", lambda *arguments: None)
    assert dropped(rng)[0] == "jax_attention.attend_in_flash"
    assert dropped(rng, causal=True)[0] == "jax_attention.attend_with_dropout"
    assert dropped(rng, mask=PADDED[:, None, None])[0] == "jax_attention.attend_with_dropout"
    assert jax_trials.has_flash(np.zeros((1, 5, 2, 64), "float32"), 0.1)
    assert not jax_trials.has_flash(np.zeros((1, 5, 2, 256), "float32"), 0.1)
    assert not jax_trials.has_flash(np.zeros((1, 5, 2, 64), "float64"), 0.1)
    on_a_gpu.setattr("jax.device_count", lambda: 2)
    assert not jax_trials.has_flash(np.zeros((1, 5, 2, 64), "float32"), 0.1)  # XLA would not split it


def test_the_trial_of_rows_without_dropout_tells_a_right_kernel_from_one_that_ignores_sequences(monkeypatch):
    from keras_bert_rebuild.kernels import jax_flash, jax_trials

    right = functools.partial(jax_flash.attend_by_sequences, interpret=True)
    for form, passes in ((right, True), (lambda *tensors: right(*tensors[:-1], np.ones_like(tensors[-1])), False)):
        monkeypatch.setattr(jax_flash, "attend_by_sequences", form)
        jax_trials.flash_is_right.cache_clear()
        with contextlib.nullcontext() if passes else pytest.warns(UserWarning, match="computed outputs that differ"):
            assert jax_trials.flash_is_right("float32", 16, False) is passes
    jax_trials.flash_is_right.cache_clear()


@pytest.mark.slow
def test_a_kernel_that_fails_or_computes_something_else_is_not_used(on_a_gpu, rng):
    from keras_bert_rebuild.kernels import jax_flash, jax_trials

    def raises(*arguments):
        raise RuntimeError("ptxas: out of\nregisters")

    right = jax_flash.attention_with_dropout
    wrong = {
        r"failed: RuntimeError: ptxas: out of registers": raises,
        # The same but for the bits, and for the gradients.
        r"computed outputs that differ by 0\.\d+ of": lambda *arguments: right(*arguments[:-1], arguments[-1] + 1),
        r"computed gradients of K that differ by \d": lambda query, key, *others: right(query, key / 2 + stopped(key) / 2, *others),
        r"computed outputs that differ by nan": lambda *arguments: right(*arguments) * np.nan,
    }
    for message, form in wrong.items():
        on_a_gpu.setattr(jax_flash, "attention_with_dropout", form)
        jax_trials.flash_is_right.cache_clear()
        with pytest.warns(UserWarning, match=f"does not use its own kernel for this GPU, since it {message}"):
            form, outputs = dropped(rng)
        assert form == "jax_attention.attend_with_dropout"
        assert np.isfinite(outputs).all()


def stopped(x):
    import jax

    return jax.lax.stop_gradient(x)


@pytest.mark.slow(torch=True)
def test_two_devices_compute_their_rows_of_the_batch_with_the_bits_of_one_device():
    apart = printed_json("kernels_over_devices.py", "flash", devices=2)
    assert apart["devices"] == 2
    assert apart["shape of three rows"] == [3, 16, 2, 16]
    assert apart["difference"] < 1e-5
    assert apart["between devices"] > 0.5
