"""Every kernel of the running backend has the values and gradients of the plain form in `keras.ops`."""

import functools
import importlib
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.gradients import TOLERANCES, value_and_gradients
from keras import ops

from keras_bert_rebuild import AdamW, kernels
from keras_bert_rebuild.kernels import operations, optimizer_operations
from keras_bert_rebuild.kernels.choice import _of_backend, choose, switched_off
from keras_bert_rebuild.kernels.table import TABLE
from keras_bert_rebuild.layers import Dropout, FeedForward, LayerNormalization, MultiHeadSelfAttention
from keras_bert_rebuild.layers.activations import gelu, gelu_erf, quick_gelu

ROOT = Path(__file__).parents[2]
BACKEND = keras.config.backend()
MASK = np.arange(6) < np.array([6, 4])[:, None]
# Of two rows, one with two sequences and padding, one with one.
NUMBERS = np.array([[1, 1, 1, 4, 4, 0], [1, 1, 1, 1, 1, 1]], "int32")
# Of 65,536 numbers less than one is dropped on average: kernel and plain form keep all.
NEARLY_NONE = 1e-9


def attention(rng, dtype, mask=MASK, dropout=0.0, causal=False):
    """Attention over queries, keys and values of 3 heads of 8."""
    # On torch a kernel without a seed of the user's; elsewhere one with which bfloat16 drops nothing.
    seeds = keras.random.SeedGenerator(None if BACKEND == "torch" else 3)
    of_tensors = functools.partial(kernels.attention, mask=ops.convert_to_tensor(mask), causal=causal, dropout=dropout, seeds=seeds)
    return lambda query, key, value: of_tensors(query, key, value), [rng.standard_normal((2, 6, 3, 8)) for _ in range(3)]


def windowed_attention(rng, dtype, causal=False):
    """Attention within a window of one token on either side, over 12 tokens, some of which have nothing but padding in theirs."""
    mask = ops.convert_to_tensor(np.arange(12) < np.array([12, 7])[:, None])
    of_tensors = functools.partial(kernels.windowed_attention, mask=mask, window=1, causal=causal)
    return lambda query, key, value: of_tensors(query, key, value), [rng.standard_normal((2, 12, 3, 8)) for _ in range(3)]


def dropout(rng, dtype, noise_shape=None):
    seeds = keras.random.SeedGenerator(3)
    return lambda x: kernels.dropout(x, NEARLY_NONE, seeds, noise_shape), [rng.standard_normal((2, 6, 8))]


def gelu_kernel(rng, dtype, approximate):
    return lambda x: kernels.gelu(x, approximate), [3 * rng.standard_normal((2, 6, 8))]


def in_one_kernel(rng, dtype, function=gelu):
    return lambda x: kernels.in_one_kernel(function)(x), [3 * rng.standard_normal((2, 6, 8))]


def layer_normalization(rng, dtype, axis=-1):
    """Over 64 numbers, with a scale and an offset."""
    gamma, beta = (ops.convert_to_tensor(1 + 0.1 * rng.standard_normal(64), "float32") for _ in range(2))
    arrays = [2 + rng.standard_normal((2, 6, 64))]
    return lambda x: ops.cast(kernels.layer_normalization(x, gamma, beta, axis, 1e-12), x.dtype), arrays


def layer(rng, dtype, use_bias=True, activation=None):
    """A `Dense` from 8 to 5."""
    made = keras.layers.Dense(5, activation=activation, use_bias=use_bias, dtype=dtype)
    made.build((None, 8))
    made.set_weights([rng.standard_normal(weight.shape) for weight in made.weights])
    return made


def dense(rng, dtype, **options):
    made = layer(rng, dtype, **options)
    return lambda x: kernels.dense(made, x), [rng.standard_normal((2, 6, 8))]


def similarities(rng, dtype):
    return kernels.similarities, [rng.standard_normal((6, 8)), rng.standard_normal((11, 8))]


def add_bias(rng, dtype):
    return kernels.add_bias, [rng.standard_normal((4, 6, 8)), rng.standard_normal((6, 8))]


def activated_dense(rng, dtype, quantized=False, **options):
    made = layer(rng, dtype, **options)
    if quantized:
        made.quantize("int8")
    return lambda x: kernels.activated_dense(gelu, made, x, dtype), [rng.standard_normal((2, 6, 8))]


def bounded_scan(rng, dtype):
    def step(carry, position):
        return (ops.tanh(carry[0] / 2 + position[0]),)

    return lambda x: kernels.bounded_scan(step, (ops.zeros_like(x[0]),), (x,))[0], [rng.standard_normal((5, 2, 8))]


# Operation and options: a case made by the functions above.
CASES = {
    "attention": (
        attention,
        {
            "a mask of keys": {},
            "a mask of pairs": {"mask": MASK[:, None, None, :] & np.tri(6, dtype=bool)[None, None]},
            "sequences": {"mask": NUMBERS},
            "causal": {"causal": True},
            "with dropout": {"dropout": NEARLY_NONE},
            "causal with dropout": {"causal": True, "dropout": NEARLY_NONE},
        },
    ),
    "windowed_attention": (windowed_attention, {"a mask of keys": {}, "causal": {"causal": True}}),
    "gelu": (gelu_kernel, {approximate: {"approximate": approximate} for approximate in ("tanh", "none")}),
    "dropout": (dropout, {"all numbers": {}, "rows": {"noise_shape": (None, 1, 8)}}),
    "in_one_kernel": (in_one_kernel, {f.__name__: {"function": f} for f in (gelu, gelu_erf, quick_gelu)}),
    "layer_normalization": (layer_normalization, {"": {}, "an axis from the front": {"axis": (2,)}}),
    "dense": (dense, {"bias": {}, "no bias": {"use_bias": False}, "softmax": {"activation": "softmax"}}),
    "similarities": (similarities, {"": {}}),
    "add_bias": (add_bias, {"": {}}),
    "activated_dense": (activated_dense, {"bias": {}, "no bias": {"use_bias": False}, "activation": {"activation": "tanh"}}),
    "bounded_scan": (bounded_scan, {"": {}}),
}
# Kernels without values and gradients of their own, and the test that covers them.
ELSEWHERE = {
    "attention_of_inputs": "kernels/test_jax_flash_merged.py",
    "of_tokens": "kernels/test_real_tokens.py",
    "tokens_alone": "kernels/test_real_tokens.py",
    "clip_factor": "kernels/test_table.py",
    "adam_step": "kernels/test_table.py",
    "adam_steps": "kernels/test_table.py",
    "replica_count": "training/distributed/test_tensorflow_replicas.py",
    "sum_over_replicas": "training/distributed/test_tensorflow_replicas.py",
    "mean_over_replicas": "training/distributed/test_tensorflow_replicas.py",
    "unwritten": "checkpoints/test_loaded_values.py",
    "handed_over": "checkpoints/test_loaded_values.py",
}
EACH = [(operation, case) for operation, (_, cases) in CASES.items() for case in cases]


@pytest.fixture
def plain(monkeypatch):
    """Wrap a function so that it runs without any kernel."""

    def run(function, *arguments, **options):
        with monkeypatch.context() as patch:
            for module in (operations, optimizer_operations):
                patch.setattr(module, "choose", lambda operation, *arguments: None)
            kernels.in_one_kernel.cache_clear()
            answer = function(*arguments, **options)
        kernels.in_one_kernel.cache_clear()
        return answer

    return run


@pytest.fixture
def gpu_kernels_anywhere(monkeypatch):
    """The kernels for GPUs: on JAX that of cuDNN with the arithmetic of XLA, that of Pallas interpreted; on torch as it is."""
    if BACKEND == "jax":
        from keras_bert_rebuild.kernels import jax_devices, jax_kernels, jax_norm, jax_trials

        monkeypatch.setattr(jax_devices, "is_on_cuda", lambda: True)
        monkeypatch.setattr(jax_trials, "has_norm", lambda x, axis: True)
        monkeypatch.setattr(jax_norm, "normalize", functools.partial(jax_norm.normalize, interpret=True))
        for name in ("attend_by_pairs", "attend_by_key_lengths"):
            monkeypatch.setattr(jax_kernels, name, functools.partial(getattr(jax_kernels, name), implementation="xla"))
        monkeypatch.setattr(jax_kernels, "has_fused_kernel", lambda query: True)
    if BACKEND == "torch":
        from keras_bert_rebuild.kernels import torch_kernels

        monkeypatch.setattr(torch_kernels, "is_on_gpu", lambda tensor: True)
    kernels.in_one_kernel.cache_clear()
    yield
    kernels.in_one_kernel.cache_clear()


@pytest.mark.usefixtures("gpu_kernels_anywhere")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("operation", "case"), EACH, ids=" ".join)
def test_a_kernel_has_the_values_and_gradients_of_the_plain_form(operation, case, dtype, rng, plain):
    make, cases = CASES[operation]
    function, arrays = make(rng, dtype, **cases[case])
    upstream = rng.standard_normal(ops.convert_to_numpy(ops.cast(function(*tensors(arrays, dtype)), "float32")).shape)
    expected = plain(value_and_gradients, function, upstream, *arrays, dtype=dtype)
    found = value_and_gradients(function, upstream, *arrays, dtype=dtype)
    assert len(found) == 1 + len(arrays)
    for one, other in zip(found, expected, strict=True):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=2 * TOLERANCES[dtype], atol=2 * TOLERANCES[dtype] * scale)


def tensors(arrays, dtype):
    return [ops.convert_to_tensor(array, dtype=dtype) for array in arrays]


@pytest.mark.parametrize("clip", [None, 0.1], ids=["not clipped", "clipped"])
def test_the_steps_of_adam_are_those_of_the_plain_form(clip, rng, plain):
    shapes = ((300, 256), (256,))  # on TensorFlow each kind has a kernel of its own
    start, gradients = ([rng.standard_normal(shape).astype("float32") for shape in shapes] for _ in range(2))

    def weights():
        variables = [keras.Variable(array, name=name) for array, name in zip(start, ("kernel", "bias"), strict=True)]
        optimizer = AdamW(0.01, weight_decay=0.3, global_clipnorm=clip)
        optimizer.build(variables)
        for _ in range(3):
            optimizer.apply([ops.convert_to_tensor(gradient) for gradient in gradients], variables)
        return [ops.convert_to_numpy(variable) for variable in variables]

    for one, other in zip(weights(), plain(weights), strict=True):
        np.testing.assert_allclose(one, other, rtol=5e-7, atol=1e-6)  # three steps, each rounds a weight of up to 4.8 twice


def test_a_quantized_layer_uses_its_own_product(rng):
    function, arrays = activated_dense(rng, "float32", quantized=True)
    answer = ops.convert_to_numpy(function(*tensors(arrays, "float32")))
    assert np.isfinite(answer).all()
    made = layer(rng, "float32")
    assert (choose("activated_dense", made) is not None) == (BACKEND == "tensorflow")
    made.quantize("int8")
    assert choose("activated_dense", made) is None


def test_a_kernel_is_not_used_where_its_condition_does_not_hold():
    assert choose("dropout", 1.0) is None
    assert choose("attention", np.zeros((2, 6, 3, 8), "float32"), MASK, False, 0.0) is None  # no GPU, or no half precision
    assert (choose("similarities", "float32") is None) == (BACKEND != "tensorflow")
    assert choose("adam_step", "bfloat16", "float32", False) is None
    assert choose("adam_step", "float32", "float32", True) is None
    assert choose("no such operation") is None


def layers():
    """A layer of each kind that calls kernels."""
    return [MultiHeadSelfAttention(2, attention_dropout=0.1), FeedForward(16, activation=gelu), LayerNormalization(), Dropout(0.1)]


def test_symbolic_tensors_pass_through_the_training_kernels():
    x = inputs = keras.Input((None, 8))
    for made in layers():
        x = made(x, training=True)
    outputs = keras.Model(inputs, x)(np.ones((2, 6, 8), "float32"))
    assert tuple(outputs.shape) == (2, 6, 8)
    assert np.isfinite(ops.convert_to_numpy(outputs)).all()


@pytest.mark.tensorflow
def test_an_inference_graph_needs_no_xla():
    import tensorflow as tf

    def uses_xla(training):
        made = layers()
        for one in made:
            one.build((None, None, 8))

        def run(x):
            for one in made:
                x = one(x, training=training)
            return x

        graph = tf.function(run, autograph=False).get_concrete_function(tf.TensorSpec((None, None, 8))).graph
        return "_XlaMustCompile" in str(graph.as_graph_def())

    assert uses_xla(training=True)
    assert not uses_xla(training=False)


def test_every_kernel_of_the_backend_exists_and_is_compared():
    for kernel in TABLE:
        assert kernel.operation in CASES or (ROOT / "tests" / ELSEWHERE[kernel.operation]).is_file()
        if kernel.backend == BACKEND:
            module, _, name = kernel.function.rpartition(".")
            assert callable(getattr(importlib.import_module(f"keras_bert_rebuild.kernels.{module}"), name))


def test_every_row_of_the_table_says_why_and_where_it_was_measured():
    headings = set(re.findall(r"^#+ (.+)$", (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"), re.MULTILINE))
    for kernel in TABLE:
        assert kernel.reason
        assert kernel.condition
        file = re.match(r"tests/[\w/]+\.py", kernel.figure)
        assert kernel.figure in headings or kernel.figure.startswith("none: ") or (file and (ROOT / file[0]).is_file())


@pytest.mark.parametrize(("named", "left"), [("bands.attend_in_bands", False), (" jax_flash.attention_with_dropout, ", True)])
def test_kernels_that_the_environment_names_are_left_out(named, left, monkeypatch):
    monkeypatch.setenv("KERAS_BERT_WITHOUT_KERNELS", named)
    _of_backend.cache_clear()
    try:
        assert (choose("windowed_attention", np.zeros((1, 64, 2, 8)), 1) is not None) is left
    finally:
        _of_backend.cache_clear()


def test_a_name_that_no_kernel_has_is_refused():
    with pytest.raises(ValueError, match=r"KERAS_BERT_WITHOUT_KERNELS .* out of bands\.attend_in_bands, .*; got jax_flash, x\.$"):
        switched_off("x, jax_flash,bands.attend_in_bands")


def test_a_backend_without_a_row_in_the_table_runs_the_plain_forms(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "another")
    assert {choose(kernel.operation) for kernel in TABLE} == {None}
