"""JAX only: a trial run of the kernels of `jax_flash.py` on the GPU of this process.

The kernels have run on an H100. What another GPU, driver or version of JAX makes of them is not known, so the first attention of a
process that could use them computes an example, forward and backward, and compares it with the implementation that stores its
scores; if they differ, other forms are used.
"""

import functools
import importlib
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from keras_bert_rebuild.kernels import jax_dropout
from keras_bert_rebuild.kernels.jax_devices import AMPERE, is_on_cuda, is_split_by_batch

DTYPES = ("bfloat16", "float16", "float32")
WIDTHS = range(16, 129)
# The maximum relative difference of the norms; if the two dropped different probabilities, it would be 0.4.
TOLERANCE = 0.02


def has_flash(query):
    """Whether the kernels run here for queries `(batch, length, heads, width)` of this dtype and width."""
    if not is_on_cuda(AMPERE):
        return False
    dtype, width = str(query.dtype), query.shape[-1]
    return dtype in DTYPES and width in WIDTHS and is_split_by_batch() and computes_rightly(dtype, width)


@functools.cache
def computes_rightly(dtype, width):
    """Whether the kernels compute the right values and gradients; if not, a warning says so."""
    # In another thread, because this one is tracing a step and cannot compute anything.
    with ThreadPoolExecutor(1) as thread:
        reason = thread.submit(_fault, dtype, width).result()
    if reason:
        warnings.warn(f"attention does not use its own kernel for this GPU, since it {reason}.", stacklevel=2)
    return not reason


def _fault(dtype, width):
    """A phrase that says what is wrong with the kernels; None if nothing is."""
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
    """Outputs and gradients, as float32, for two rows of 150 tokens with padding, two sequences and partial blocks."""
    rng = np.random.default_rng(0)
    mask = np.stack([np.repeat([1, 71, 0], [70, 60, 20]), np.ones(150, int)]).astype("int32")
    tensors = [jnp.asarray(rng.standard_normal((2, 150, 2, width)), dtype) for _ in range(4)]

    def run(query, key, value, upstream, mask, seed):
        outputs, gradients = jax.vjp(lambda *tensors: form(*tensors, mask, False, 0.1, seed), query, key, value)
        return outputs, *gradients(upstream)

    return [np.asarray(array, "float32") for array in jax.jit(run)(*tensors, mask, np.array([3, 1], "uint32"))]
