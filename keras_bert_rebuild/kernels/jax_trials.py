"""JAX on GPUs: where the kernels in Pallas run, and a trial run of each on the GPU of this process.

They have run on an H100. What another GPU, driver or version of JAX makes of them is not known, so the first operation of a process
that could use a kernel computes an example, forward and backward, and compares it with another form, which is used if they differ.
"""

import functools
import importlib
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from keras import ops

from keras_bert_rebuild.kernels import jax_dropout
from keras_bert_rebuild.kernels.jax_devices import AMPERE, is_compiling_only, is_on_cuda, is_split_by_batch
from keras_bert_rebuild.kernels.kernel import kernel, norm_axis, normalizes_in_training
from keras_bert_rebuild.layers.keras_layers import LayerNormalization
from keras_bert_rebuild.layers.masks import visible_pairs

DTYPES = ("bfloat16", "float16", "float32")
WIDTHS = range(16, 129)
# Of the largest power of two that divides the width of a row, which is loaded at a time, and of the width.
LEAST_PART, WIDEST = 64, 8192
# The maximum relative difference of the norms; if two forms of attention dropped different probabilities, it would be 0.4.
TOLERANCE = 0.02

# Two rows of 150 tokens, one of them with two sequences and padding; a rate and a seed of dropout.
MASK = np.stack([np.repeat([1, 71, 0], [70, 60, 20]), np.ones(150, int)]).astype("int32")
RATE, SEED = 0.1, np.array([3, 1], "uint32")


def has_flash(query, dropout):
    """Whether the kernels of `jax_flash.py` run here for queries `(batch, length, heads, width)` of this dtype and width."""
    dtype, width = str(query.dtype), query.shape[-1]
    takes = dtype in DTYPES and width in WIDTHS
    return takes and is_on_cuda(AMPERE) and is_split_by_batch() and flash_is_right(dtype, width, dropout > 0)


def has_merged_flash(dense, heads, dropout):
    """Whether the kernels of `jax_flash_merged.py` run here for the products of layers like this one."""
    dtype, width = dense.compute_dtype, dense.units // heads
    takes = dtype in DTYPES and width in WIDTHS
    return takes and is_on_cuda(AMPERE) and is_split_by_batch() and merged_flash_is_right(dtype, width, dropout > 0, dense.use_bias)


def has_norm(x, axis):
    """Whether the kernel of `jax_norm.py` runs here for arrays like this one, normalised over the last axis."""
    dtype, width = str(x.dtype), x.shape[-1]
    last = axis in (-1, (-1,), len(x.shape) - 1, (len(x.shape) - 1,))
    takes = dtype in DTYPES and last and width <= WIDEST and width & -width >= LEAST_PART and math.prod(x.shape[:-1]) > 0
    return takes and is_on_cuda(AMPERE) and is_split_by_batch() and norm_is_right(dtype, width)


def _normalizes_in_one_pass(layer, x, training=None):
    return normalizes_in_training(layer, x, training) and has_norm(x, norm_axis(layer))


@kernel(LayerNormalization.call, "jax", when=_normalizes_in_one_pass)
def normalize(rest, layer, x, training=None):
    """XLA reads the inputs three times forward, and once for each of three gradients.

    Measured: Where a step on a GPU spends its time
    """
    normalized = importlib.import_module("keras_bert_rebuild.kernels.jax_norm").normalize
    outputs = normalized(x, layer.gamma.value, layer.beta.value, norm_axis(layer), layer.epsilon)
    return ops.cast(outputs, layer.compute_dtype)


@functools.cache
def flash_is_right(dtype, width, drops):
    """Whether the kernels of attention, with or without dropout, compute the right values and gradients."""
    forms = [functools.partial(_attention, by_kernel, dtype, width, drops) for by_kernel in (True, False)]
    return _computes_rightly("attention", "QKV", *forms)


@functools.cache
def merged_flash_is_right(dtype, width, drops, use_bias):
    """Whether the kernels that read one product of queries, keys and values compute the right values and gradients."""
    forms = [functools.partial(_attention_of_inputs, by_kernel, dtype, width, drops, use_bias) for by_kernel in (True, False)]
    names = ("inputs", "kernels", "biases")[: 2 + use_bias]
    return _computes_rightly("attention of one product", names, *forms)


@functools.cache
def norm_is_right(dtype, width):
    """Whether the kernel of layer normalisation computes the right values and gradients."""
    names = "inputs", "gamma", "beta"
    return _computes_rightly("layer normalisation", names, lambda: _norm(dtype, width, True), lambda: _norm(dtype, width, False))


def _computes_rightly(subject, names, kernel, plain):
    """Whether two functions compute the same outputs and gradients, of the names; if not, a warning says so."""
    if is_compiling_only():
        return True
    # In other threads, because this one is tracing a step and cannot compute anything; both forms are compiled at the same time.
    with ThreadPoolExecutor(2) as threads:
        reason = _fault(names, threads.submit(kernel), threads.submit(plain))
    if reason:
        warnings.warn(f"{subject} does not use its own kernel for this GPU, since it {reason}.", stacklevel=2)
    return not reason


def _fault(names, kernel, plain):
    """A phrase that says what is wrong with a kernel; None if nothing is. Both forms are futures."""
    try:
        outputs, expected = kernel.result(), plain.result()
    except Exception as error:  # of a compiler, a driver or a JAX without this module
        return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    for name, one, other in zip(("outputs", *names), outputs, expected, strict=True):
        difference = np.linalg.norm(one - other) / np.linalg.norm(other)
        if not difference <= TOLERANCE:
            return f"computed {name if name == 'outputs' else f'gradients of {name}'} that differ by {difference:.2g} of their norm"
    return None


def _attention(by_kernel, dtype, width, drops):
    """Outputs and gradients, as float32, for two rows of 150 tokens with padding, two sequences and partial blocks."""
    rng = np.random.default_rng(0)
    tensors = [_drawn(rng, (2, 150, 2, width), dtype) for _ in range(4)]
    if not by_kernel:
        return _both_passes(functools.partial(_plain_attention, drops), *tensors)
    flash = importlib.import_module("keras_bert_rebuild.kernels.jax_flash")
    if drops:
        return _both_passes(lambda *tensors: flash.attention_with_dropout(*tensors, MASK, RATE, SEED), *tensors)
    return _both_passes(lambda *tensors: flash.attend_by_sequences(*tensors, MASK), *tensors)


def _plain_attention(drops, *tensors):
    if drops:
        return jax_dropout.attention_with_dropout(*tensors, MASK, RATE, SEED)
    return ops.dot_product_attention(*tensors, mask=visible_pairs(MASK))


class _Dense(NamedTuple):
    """What the kernel reads of a `keras.layers.Dense`."""

    compute_dtype: str
    kernel: Any
    bias: Any = None


def _attention_of_inputs(by_kernel, dtype, width, drops, use_bias):
    """Attention to the inputs of three products, which share a bias, since that of keys alone has no gradient to compare."""
    rng = np.random.default_rng(0)
    inputs, upstream = (_drawn(rng, shape, dtype) for shape in ((2, 150, 32), (2, 150, 2, width)))
    weights = [_drawn(rng, shape, "float32") / 4 for shape in ((3, 32, 2 * width), (2 * width,))]
    merged = importlib.import_module("keras_bert_rebuild.kernels.jax_flash_merged") if by_kernel else None

    def attended(inputs, kernels, *bias):
        if by_kernel:
            denses = [_Dense(dtype, kernel, *bias) for kernel in kernels]
            return merged.attend_to_inputs(inputs, denses, 2, MASK, RATE if drops else 0.0, SEED)
        tensors = (sum((one.astype(dtype) for one in bias), inputs @ kernel.astype(dtype)) for kernel in kernels)
        return _plain_attention(drops, *(jnp.reshape(tensor, upstream.shape) for tensor in tensors))

    return _both_passes(attended, inputs, *weights[: 1 + use_bias], upstream)


def _norm(dtype, width, by_kernel):
    """Outputs and gradients, as float32, of 35 rows, an odd number."""
    rng = np.random.default_rng(0)
    x, upstream = (_drawn(rng, (5, 7, width), dtype, mean=2) for _ in range(2))
    weights = [_drawn(rng, (width,), "float32", mean=1) for _ in range(2)]
    norm = importlib.import_module("keras_bert_rebuild.kernels.jax_norm").normalize if by_kernel else ops.layer_normalization
    return _both_passes(lambda *arrays: norm(*arrays, -1, 1e-12).astype(dtype), x, *weights, upstream)


def _drawn(rng, shape, dtype, mean=0):
    """Normal numbers, in NumPy: JAX would compile a program for each conversion."""
    return np.asarray(mean + rng.standard_normal(shape), jnp.dtype(dtype))


def _both_passes(function, *arrays):
    """The outputs and the gradients of the inputs, of which the upstream gradient is the last array."""

    def run(*arrays):
        outputs, gradients = jax.vjp(function, *arrays[:-1])
        return outputs, *gradients(arrays[-1])

    return [np.asarray(array, "float32") for array in jax.jit(run)(*arrays)]
