"""JAX only: whether the kernel of `jax_flash.py` runs on the GPU at hand, which it shows by computing an example.

It has been compiled for GPUs, but not yet run on one. So the first attention with dropout of a process has it compute an example,
forward and backward, and compares the result with the form that stores its scores; if they differ, that form is used.
"""

import functools
import importlib
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from keras_bert_rebuild.kernels import jax_dropout
from keras_bert_rebuild.kernels.jax_segments import is_split_by_batch

CAPABILITY = 8.0  # Ampere: bfloat16, and matrices of float32 in TF32
DTYPES = ("bfloat16", "float16", "float32")
WIDTHS = range(16, 129)
# Of the norm of a result, so much may the two forms differ; they differ by 0.4 where they drop different probabilities.
TOLERANCE = 0.02


def has_flash_with_dropout(query):
    """Whether the kernel runs here for queries `(batch, length, heads, width)` of this dtype and width."""
    device = jax.local_devices()[0]
    if "cuda" not in device.client.platform_version or float(device.compute_capability) < CAPABILITY:
        return False
    dtype, width = str(query.dtype), query.shape[-1]
    return dtype in DTYPES and width in WIDTHS and is_split_by_batch() and computes_rightly(dtype, width)


@functools.cache
def computes_rightly(dtype, width):
    """Whether the kernel has the values and gradients of the form that stores its scores; if not, a warning says so."""
    # In a thread of its own: this one is tracing a step, in which nothing can be computed.
    with ThreadPoolExecutor(1) as thread:
        reason = thread.submit(_fault, dtype, width).result()
    if reason:
        warnings.warn(f"attention with dropout stores its scores, since its kernel for this GPU {reason}.", stacklevel=2)
    return not reason


def _fault(dtype, width):
    """What is wrong with the kernel, in a few words; None if nothing is."""
    try:
        flash = importlib.import_module("keras_bert_rebuild.kernels.jax_flash")
        found, expected = (_example(form.attention_with_dropout, dtype, width) for form in (flash, jax_dropout))
    except Exception as error:  # of a compiler, a driver or a JAX without this module
        return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    for name, one, other in zip(("outputs", *"QKV"), found, expected, strict=True):
        difference = np.linalg.norm(one - other) / np.linalg.norm(other)
        if not difference <= TOLERANCE:
            return f"computed {name if name == 'outputs' else f'gradients of {name}'} that differ by {difference:.2g} of their norm"
    return None


def _example(form, dtype, width):
    """Outputs and gradients in float32 of two rows of 150 tokens, which have padding, two sequences and no whole blocks."""
    rng = np.random.default_rng(0)
    mask = np.stack([np.repeat([1, 71, 0], [70, 60, 20]), np.ones(150, int)]).astype("int32")
    tensors = [jnp.asarray(rng.standard_normal((2, 150, 2, width)), dtype) for _ in range(4)]

    def run(query, key, value, upstream, mask, seed):
        outputs, gradients = jax.vjp(lambda *tensors: form(*tensors, mask, False, 0.1, seed), query, key, value)
        return outputs, *gradients(upstream)

    return [np.asarray(array, "float32") for array in jax.jit(run)(*tensors, mask, np.array([3, 1], "uint32"))]
