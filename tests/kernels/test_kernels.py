"""Every kernel of the running backend has the values and gradients of the plain form in `keras.ops`."""

import ast
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from helpers.kernel_checks import TOLERANCES, chosen_kernel, noted_kernels, plain, value_and_gradients
from keras import ops

from keras_bert_rebuild import AdamW, kernels
from keras_bert_rebuild.kernels import MODULES, operations
from keras_bert_rebuild.kernels.kernel import BACKENDS, KERNELS, check_switched_off, kernel
from keras_bert_rebuild.layers import Dropout, FeedForward, LayerNormalization, MultiHeadSelfAttention, products
from keras_bert_rebuild.layers.activations import gelu, gelu_erf, quick_gelu
from keras_bert_rebuild.layers.seam import seam

pytestmark = pytest.mark.backend

ROOT = Path(__file__).parents[2]
BACKEND = keras.config.backend()
MASK = np.arange(6) < np.array([6, 4])[:, None]
# Of two rows, one with two sequences and padding, one with one.
NUMBERS = np.array([[1, 1, 1, 4, 4, 0], [1, 1, 1, 1, 1, 1]], "int32")
PAIRS = MASK[:, None, None, :] & np.tri(6, dtype=bool)[None, None]
# With a window of one token on either side some tokens have nothing but padding in theirs.
LONG = np.arange(12) < np.array([12, 7])[:, None]
# Of 65,536 numbers less than one is dropped on average: kernel and plain form keep all.
NEARLY_NONE = 1e-9


def randomised(layer, shape, rng):
    """The layer, built, with random weights."""
    layer.build(shape)
    layer.set_weights([rng.standard_normal(weight.shape) for weight in layer.weights])
    return layer


def attend(rng, dtype, mask=MASK, dropout=0.0, training=True, **options):
    """Attention over queries, keys and values of 3 heads of 8."""
    layer = randomised(MultiHeadSelfAttention(3, attention_dropout=dropout, dtype=dtype, **options), (None, None, 24), rng)
    tensor = None if mask is None else ops.convert_to_tensor(mask)
    length = 6 if mask is None else mask.shape[-1]
    arrays = [rng.standard_normal((2, length, 3, 8)) for _ in range(3)]
    return lambda query, key, value: layer.attend(query, key, value, tensor, training), arrays


def self_attention(rng, dtype, mask=MASK, dropout=0.0):
    """The whole layer, of 2 heads of 16."""
    layer = randomised(MultiHeadSelfAttention(2, attention_dropout=dropout, dtype=dtype), (None, None, 32), rng)
    layer.set_weights([weight / 6 for weight in layer.get_weights()])
    return lambda x: layer(x, mask=ops.convert_to_tensor(mask), training=True), [rng.standard_normal((2, 6, 32))]


def activate(rng, dtype, activation=gelu):
    layer = randomised(FeedForward(16, activation=activation, dtype=dtype), (None, None, 8), rng)
    return lambda x: layer.activate(x, True), [3 * rng.standard_normal((2, 6, 8))]


def feed_forward(rng, dtype, activation=gelu, dropout=0.0, quantized=False, **options):
    layer = FeedForward(5, activation=activation, dropout_rate=dropout, dtype=dtype, **options)
    randomised(layer, (None, None, 8), rng)
    layer.set_weights([weight / 2 for weight in layer.get_weights()])
    if quantized:
        layer.output_dense.quantize("int8")
    return lambda x: layer(x, training=True), [rng.standard_normal((2, 6, 8))]


def drop(rng, dtype, dropout, noise_shape=None):
    return Dropout(dropout, noise_shape=noise_shape, dtype=dtype).drop, [rng.standard_normal((2, 6, 8))]


def normalize(rng, dtype, axis=-1):
    """Over 64 numbers, with a scale and an offset in float32."""
    layer = LayerNormalization(axis=axis, dtype="float32" if dtype == "float32" else f"mixed_{dtype}")
    layer.build((None, 6, 64))
    layer.set_weights([1 + 0.1 * rng.standard_normal(64) for _ in range(2)])
    return lambda x: layer(x, training=True), [2 + rng.standard_normal((2, 6, 64))]


def dense(rng, dtype, use_bias=True, activation=None):
    """From 8 to 5."""
    return randomised(keras.layers.Dense(5, activation=activation, use_bias=use_bias, dtype=dtype), (None, 8), rng)


def product(rng, dtype, **options):
    layer = dense(rng, dtype, **options)
    return lambda x: products.product(layer, x), [rng.standard_normal((2, 6, 8))]


def similarities(rng, dtype):
    return products.similarities, [rng.standard_normal((6, 8)), rng.standard_normal((11, 8))]


def add_bias(rng, dtype):
    return products.add_bias, [rng.standard_normal((4, 6, 8)), rng.standard_normal((6, 8))]


def activation(rng, dtype, function):
    return function, [3 * rng.standard_normal((2, 6, 8))]


def bounded_scan(rng, dtype):
    def step(carry, position):
        return (ops.tanh(carry[0] / 2 + position[0]),)

    return lambda x: kernels.bounded_scan(step, (ops.zeros_like(x[0]),), (x,))[0], [rng.standard_normal((5, 2, 8))]


# A case is made by a function above, with options.
CASES = {
    "attention": (
        attend,
        {
            "a mask of keys": {},
            "a mask of pairs": {"mask": PAIRS},
            "no mask": {"mask": None},
            "sequences": {"mask": NUMBERS},
            "causal": {"history_only": True},
            "with dropout": {"dropout": NEARLY_NONE},
            "of pairs with dropout": {"dropout": NEARLY_NONE, "mask": PAIRS},
            "of sequences with dropout": {"dropout": NEARLY_NONE, "mask": NUMBERS},
            "no mask with dropout": {"dropout": NEARLY_NONE, "mask": None},
            "causal with dropout": {"history_only": True, "dropout": NEARLY_NONE},
            "with dropout, in inference": {"dropout": 0.5, "training": False},
            "within a window": {"window": 1, "mask": LONG},
            "within a window, short": {"window": 1},
            "within a window, of pairs": {"window": 1, "mask": PAIRS},
            "within a window, no mask": {"window": 1, "mask": None},
            "within a window, causal": {"window": 1, "mask": LONG, "history_only": True},
            "within a window, with dropout": {"window": 1, "mask": LONG, "dropout": NEARLY_NONE},
        },
    ),
    "self-attention": (
        self_attention,
        {"padding": {}, "sequences": {"mask": NUMBERS}, "with dropout": {"dropout": NEARLY_NONE}},
    ),
    "activation of a block": (activate, {f.__name__: {"activation": f} for f in (gelu, gelu_erf, quick_gelu)}),
    "feed-forward block": (
        feed_forward,
        {
            "bias": {},
            "no bias": {"use_bias": False},
            "no bias of the output": {"use_output_bias": False},
            "another activation": {"activation": "tanh"},
            "gated": {"gated": True},
            "with dropout": {"dropout": NEARLY_NONE},
        },
    ),
    "dropout": (
        drop,
        {"all numbers": {"dropout": NEARLY_NONE}, "rows": {"dropout": NEARLY_NONE, "noise_shape": (None, 1, 8)}},
    ),
    "norm": (normalize, {"": {}, "an axis from the front": {"axis": (2,)}}),
    "product": (product, {"bias": {}, "no bias": {"use_bias": False}, "softmax": {"activation": "softmax"}}),
    "similarities": (similarities, {"": {}}),
    "add_bias": (add_bias, {"": {}}),
    "activation": (activation, {f.__name__: {"function": f} for f in (gelu, gelu_erf)}),
    "bounded_scan": (bounded_scan, {"": {}}),
}
EACH = [(kind, case) for kind, (_, cases) in CASES.items() for case in cases]
# Cases of kernels for processors on JAX, which GPUs do without.
IN_BFLOAT16 = {
    ("attention", "a mask of keys"): "jax_attention.attend_on_processor",
    ("attention", "a mask of pairs"): "jax_attention.attend_on_processor",
    ("product", "bias"): "jax_dense.dense",
    ("product", "no bias"): "jax_dense.dense",
    ("similarities", ""): "jax_dense.similarities",
}
# Kernels that run in none of them, and the test that covers them.
ELSEWHERE = {
    "jax_attention.attend_in_flash": "kernels/test_jax_flash.py",
    "jax_attention.attend_by_sequences": "kernels/test_jax_flash.py",
    "jax_attention.attend_by_splash": "kernels/test_jax_attention.py",
    "jax_attention.attend_by_key_lengths": "kernels/test_jax_attention.py",
    "token_layout.leave_out_padding": "kernels/test_token_layout.py",
    "jax_operations.clip_factor": "kernels/test_gradients.py",
    "tensorflow_adam.clip_factor": "kernels/test_kernels.py",
    "tensorflow_adam.step_in_place": "kernels/test_kernels.py",
    "torch_kernels.clip_factor": "kernels/test_kernels.py",
    "torch_kernels.steps_in_place": "kernels/test_kernels.py",
    "tensorflow_replicas.count_replicas": "training/distributed/test_replicas.py",
    "tensorflow_replicas.sum_gradients": "training/distributed/test_replicas.py",
    "tensorflow_replicas.mean_of_labels": "training/distributed/test_replicas.py",
    "jax_sharding.gather_weights": "training/distributed/test_sharded.py",
    "tensorflow_kernels.unwritten": "checkpoints/test_table.py",
    "jax_operations.unwritten": "checkpoints/test_table.py",
    "jax_operations.handed_over": "checkpoints/test_table.py",
}


@pytest.fixture
def gpu_kernels_anywhere(monkeypatch):
    """The kernels for GPUs: on JAX that of cuDNN with the arithmetic of XLA, those of Pallas interpreted; on torch as it is."""
    if BACKEND == "jax":
        from keras_bert_rebuild.kernels import jax_attention, jax_dense, jax_flash_merged, jax_norm, jax_trials

        monkeypatch.setattr(jax_dense, "is_on_cuda", lambda: True)
        monkeypatch.setattr(jax_dense, "is_on_processor", lambda: False)
        monkeypatch.setattr(jax_trials, "has_norm", lambda x, axis: True)
        monkeypatch.setattr(jax_norm, "normalize", functools.partial(jax_norm.normalize, interpret=True))
        monkeypatch.setattr(jax_trials, "has_merged_flash", lambda dense, heads, dropout: True)
        merged = functools.partial(jax_flash_merged.attend_to_inputs, interpret=True)
        monkeypatch.setattr(jax_flash_merged, "attend_to_inputs", merged)
        for name in ("cudnn_by_pairs", "cudnn_by_key_lengths"):
            monkeypatch.setattr(jax_attention, name, functools.partial(getattr(jax_attention, name), implementation="xla"))
        monkeypatch.setattr(jax_attention, "has_fused_kernel", lambda query: True)
    if BACKEND == "torch":
        from keras_bert_rebuild.kernels import torch_kernels

        monkeypatch.setattr(torch_kernels, "is_on_gpu", lambda tensor: True)


@pytest.mark.usefixtures("gpu_kernels_anywhere")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("kind", "case"), EACH, ids=map(", ".join, EACH))
def test_a_kernel_has_the_values_and_gradients_of_the_plain_form(kind, case, dtype):
    compare(kind, case, dtype)


def compare(kind, case, dtype):
    make, cases = CASES[kind]
    options = cases[case]
    function, arrays = make(np.random.default_rng(0), dtype, **options)
    # A draw of Keras in bfloat16 is often zero, which drops a value at any rate.
    without = {"dropout": 0.0} if "dropout" in options and dtype == "bfloat16" else {}
    plain_function, _ = make(np.random.default_rng(0), dtype, **{**options, **without})
    shape = ops.convert_to_numpy(ops.cast(function(*tensors(arrays, dtype)), "float32")).shape
    upstream = np.random.default_rng(1).standard_normal(shape)
    expected = plain(value_and_gradients, plain_function, upstream, *arrays, dtype=dtype)
    found = value_and_gradients(function, upstream, *arrays, dtype=dtype)
    assert len(found) == 1 + len(arrays)
    for one, other in zip(found, expected, strict=True):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=2 * TOLERANCES[dtype], atol=2 * TOLERANCES[dtype] * scale)


def tensors(arrays, dtype):
    return [ops.convert_to_tensor(array, dtype=dtype) for array in arrays]


@pytest.mark.skipif(BACKEND != "jax", reason="only XLA multiplies numbers of bfloat16 on a processor slowly")
@pytest.mark.parametrize(("kind", "case"), IN_BFLOAT16, ids=map(", ".join, IN_BFLOAT16))
def test_a_kernel_for_processors_has_the_values_and_gradients_of_the_plain_form(kind, case, monkeypatch):
    from keras_bert_rebuild.kernels import jax_dense

    monkeypatch.setattr(jax_dense, "is_on_processor", lambda: True)
    with noted_kernels() as ran:
        compare(kind, case, "bfloat16")
    assert IN_BFLOAT16[kind, case] in ran


@pytest.mark.usefixtures("gpu_kernels_anywhere")
def test_every_kernel_of_the_backend_runs_in_a_case_or_has_a_test_of_its_own(rng):
    with noted_kernels() as ran:
        for make, cases in CASES.values():
            for options in cases.values():
                for dtype in TOLERANCES:
                    function, arrays = make(rng, dtype, **options)
                    function(*tensors(arrays, dtype))
    on_processors = set(IN_BFLOAT16.values()) if BACKEND == "jax" else set()
    assert KERNELS.keys() - ran - on_processors <= ELSEWHERE.keys()


def test_every_kernel_that_no_case_runs_exists_and_names_a_test():
    assert {name for name, _, _ in functions_with_kernels()} >= ELSEWHERE.keys()
    assert all((ROOT / "tests" / file).is_file() for file in ELSEWHERE.values())


@pytest.mark.parametrize("clip", [None, 0.1], ids=["not clipped", "clipped"])
def test_the_steps_of_adam_are_those_of_the_plain_form(clip, rng):
    shapes = ((300, 256), (256,))  # on TensorFlow each kind has a kernel of its own
    start, gradients = ([rng.standard_normal(shape).astype("float32") for shape in shapes] for _ in range(2))

    def weights():
        variables = [keras.Variable(array, name=name) for array, name in zip(start, ("kernel", "bias"), strict=True)]
        optimizer = AdamW(0.01, weight_decay=0.3, global_clipnorm=clip)
        optimizer.build(variables)
        for _ in range(3):
            optimizer.apply([ops.convert_to_tensor(gradient) for gradient in gradients], variables)
        return [ops.convert_to_numpy(variable) for variable in variables]

    with noted_kernels() as ran:
        found = weights()
    steps = {"tensorflow": "tensorflow_adam.step_in_place", "torch": "torch_kernels.steps_in_place"}
    factors = {"tensorflow": "tensorflow_adam.clip_factor", "torch": "torch_kernels.clip_factor"}
    assert ran >= {by_backend[BACKEND] for by_backend in ([steps, factors] if clip else [steps]) if BACKEND in by_backend}
    for one, other in zip(found, plain(weights), strict=True):
        np.testing.assert_allclose(one, other, rtol=5e-7, atol=1e-6)  # three steps, each rounds a weight of up to 4.8 twice


def test_a_quantized_layer_uses_its_own_product(rng):
    function, arrays = feed_forward(rng, "float32", quantized=True)
    (x,) = tensors(arrays, "float32")
    assert np.isfinite(ops.convert_to_numpy(function(x))).all()
    layer = randomised(FeedForward(5, activation=gelu), (None, None, 8), rng)
    assert (chosen_kernel(FeedForward.call, layer, x, True) is not None) == (BACKEND == "tensorflow")
    layer.output_dense.quantize("int8")
    assert chosen_kernel(FeedForward.call, layer, x, True) is None
    assert chosen_kernel(products.product, layer.output_dense, x) is None


def test_a_kernel_is_not_used_where_its_condition_does_not_hold():
    x = ops.zeros((2, 6, 3, 8))
    layer = MultiHeadSelfAttention(3)
    layer.build((None, None, 24))
    assert chosen_kernel(Dropout.drop, Dropout(1.0), x) is None
    # No GPU, or no half precision.
    assert (
        chosen_kernel(MultiHeadSelfAttention.attend, layer, x, x, x, ops.convert_to_tensor(MASK), True) == "fused_attention.attend"
    )
    assert chosen_kernel(MultiHeadSelfAttention.attend, layer, x, x, x, ops.convert_to_tensor(MASK), True, "shared") is None
    assert (chosen_kernel(products.similarities, x, x) is None) == (BACKEND != "tensorflow")
    weight, momentum = (SimpleNamespace(dtype=dtype) for dtype in ("bfloat16", "float32"))
    assert chosen_kernel(operations.adam_step, weight, momentum, False) is None
    assert chosen_kernel(operations.adam_step, momentum, momentum, True) is None
    assert (chosen_kernel(operations.adam_step, momentum, momentum, False) is not None) == (BACKEND == "tensorflow")


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


@pytest.mark.backend("tensorflow")
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


def functions_with_kernels():
    """The name, the docstring and the backends of every function that is decorated as a kernel, in the source of all backends."""
    for path in sorted((ROOT / "keras_bert_rebuild").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for decorator in getattr(function, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "kernel":
                    backends = [each for argument in decorator.args[1:] for each in backends_of(argument)]
                    yield f"{path.stem}.{function.name}", ast.get_docstring(function), backends


def backends_of(argument):
    return BACKENDS if ast.unparse(argument) == "*BACKENDS" else [argument.value]


def test_every_kernel_says_why_and_where_it_was_measured():
    headings = set(re.findall(r"^#+ (.+)$", (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert len(list(functions_with_kernels())) > 30
    for name, docstring, _ in functions_with_kernels():
        reason, _, figure = (docstring or "").partition("Measured: ")
        figure = figure.partition("\n")[0]
        file = re.match(r"tests/[\w/]+\.py", figure)
        assert reason.strip(), name
        assert figure in headings or figure.startswith("none: ") or (file and (ROOT / file[0]).is_file()), name


def test_every_kernel_is_in_a_module_of_its_backends_and_has_a_name_of_its_own():
    found = [(name, backend) for name, _, backends in functions_with_kernels() for backend in backends]
    assert len(found) == len(set(found))
    for name, backend in found:
        assert name.partition(".")[0] in MODULES[backend], name
    assert KERNELS.keys() == {name for name, backend in found if backend == BACKEND}


LEFT_OUT = """
import json
import numpy as np
from keras_bert_rebuild.kernels.kernel import KERNELS
from keras_bert_rebuild.layers import MultiHeadSelfAttention
from keras_bert_rebuild.layers.seam import kernel_of

layer = MultiHeadSelfAttention(2, window=1)
layer.build((None, None, 16))
x = np.zeros((1, 64, 2, 8), "float32")
kernel = kernel_of(MultiHeadSelfAttention.attend, layer, x, x, x, np.ones((1, 64), bool))
print(json.dumps([kernel.function.__module__.rpartition(".")[2], "bands.attend_in_bands" in KERNELS]))
"""


@pytest.mark.parametrize(("named", "runs"), [("bands.attend_in_bands", "fused_attention"), (" {other}, ", "bands")])
def test_kernels_that_the_environment_names_are_left_out(named, runs):
    other = "torch_kernels.gelu" if BACKEND == "jax" else "jax_attention.attend_in_flash"
    environment = os.environ | {
        "KERAS_BERT_WITHOUT_KERNELS": named.format(other=other),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    answer = subprocess.run([sys.executable, "-c", LEFT_OUT], env=environment, stdout=subprocess.PIPE, check=True)
    assert json.loads(answer.stdout.splitlines()[-1]) == [runs, True]


def test_a_name_that_no_kernel_has_is_refused(monkeypatch):
    monkeypatch.setenv("KERAS_BERT_WITHOUT_KERNELS", "x, jax_flash,bands.attend_in_bands,bands.x")
    names = r"KERAS_BERT_WITHOUT_KERNELS .* out of bands\.attend_in_bands, .*; got bands\.x, jax_flash, x\.$"
    with pytest.raises(ValueError, match=names):
        check_switched_off(MODULES)


def test_a_backend_without_kernels_runs_the_plain_forms(monkeypatch):
    @seam
    def doubled(x):
        return 2 * x

    monkeypatch.setattr(keras.config, "backend", lambda: "another")
    before = dict(KERNELS)

    @kernel(doubled, *BACKENDS)
    def of_backends(rest, x):
        return x + x

    assert doubled.kernels == []
    assert before == KERNELS
    assert doubled(3) == 6
