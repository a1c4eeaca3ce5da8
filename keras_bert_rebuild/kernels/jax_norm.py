"""JAX on GPUs: layer normalisation over the last axis in one pass forward and one backward, in Pallas, compiled by Triton.

XLA reads the inputs three times forward (mean, variance, outputs), and backward once for each of the gradients of inputs, gamma and
beta. Here a program holds whole rows in its registers, and the gradients of gamma and beta are summed on the way.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas
from jax.experimental.pallas import triton

from keras_bert_rebuild.kernels.jax_devices import over_devices

# Numbers that a program holds of an array, and programs of the backward pass: about three for each multiprocessor of an H100.
NUMBERS, PROGRAMS = 4096, 384
WARPS = 4


class Settings(NamedTuple):
    """The compile-time constants of a kernel."""

    epsilon: float
    rows: int
    """Rows of a block."""
    interpret: bool


def normalize(x, gamma, beta, axis, epsilon, interpret=False):
    """gamma · (x − mean) / √(variance + epsilon) + beta over the last axis, with moments and sums in float32.

    Args:
        x: `(batch, ..., width)`.
        gamma, beta: `(width,)`.
        axis: the last.
        epsilon: added to the variance.
        interpret: run Pallas's interpreter, which works on any device, but slowly.

    Returns:
        The shape and dtype of `x`.
    """

    def normalize_part(x, gamma, beta):
        rows = jnp.reshape(x, (-1, x.shape[-1]))
        block = min(2 ** int(math.log2(max(1, NUMBERS // rows.shape[1]))), len(rows) & -len(rows))
        return jnp.reshape(_normalize(Settings(epsilon, block, interpret), rows, gamma, beta), x.shape)

    return over_devices(normalize_part, shared=2)(x, gamma, beta)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _normalize(settings, x, gamma, beta):
    return _forward(settings, x, gamma, beta)[0]


# As in `jax_flash.py`, translated once for all layers.
@functools.partial(jax.jit, static_argnums=0)
def _forward(settings, x, gamma, beta):
    count, width = x.shape
    of_rows = pallas.BlockSpec((settings.rows,), lambda i: (i,))
    block, whole = pallas.BlockSpec((settings.rows, width), lambda i: (i, 0)), pallas.BlockSpec((width,), lambda i: (0,))
    moment = jax.ShapeDtypeStruct((count,), "float32")
    outputs, mean, inverse = pallas.pallas_call(
        functools.partial(forward_kernel, settings),
        grid=(count // settings.rows,),
        in_specs=(block, whole, whole),
        out_specs=(block, of_rows, of_rows),
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), moment, moment),
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=settings.interpret,
        name="layer_norm_forward_kernel",
    )(x, gamma, beta)
    return outputs, (x, gamma, beta, mean, inverse)


@functools.partial(jax.jit, static_argnums=0)
def _backward(settings, retained, upstream):
    x, gamma, beta, mean, inverse = retained
    count, width = x.shape
    programs = min(PROGRAMS, count // settings.rows)
    rows, of_rows = pallas.BlockSpec((count, width), lambda i: (0, 0)), pallas.BlockSpec((count,), lambda i: (0,))
    sums = pallas.BlockSpec((None, width), lambda i: (i, 0))
    of_program = jax.ShapeDtypeStruct((programs, width), "float32")
    of_x, of_gamma, of_beta = pallas.pallas_call(
        functools.partial(backward_kernel, settings),
        grid=(programs,),
        in_specs=(rows, rows, pallas.BlockSpec((width,), lambda i: (0,)), of_rows, of_rows),
        out_specs=(rows, sums, sums),
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), of_program, of_program),
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=settings.interpret,
        name="layer_norm_backward_kernel",
    )(x, upstream, gamma, mean, inverse)
    return of_x, jnp.sum(of_gamma, axis=0).astype(gamma.dtype), jnp.sum(of_beta, axis=0).astype(beta.dtype)


_normalize.defvjp(_forward, _backward)


def forward_kernel(settings, x, gamma, beta, outputs, mean, inverse):
    """The outputs, means and inverse deviations of a block of rows `(rows, width)`."""
    width = x.shape[-1]
    parts = [x[:, part].astype("float32") for part in _parts(width)]
    center = sum(jnp.sum(part, axis=1) for part in parts) / width
    parts = [part - center[:, None] for part in parts]
    scale = lax.rsqrt(sum(jnp.sum(part * part, axis=1) for part in parts) / width + settings.epsilon)
    mean[...], inverse[...] = center, scale
    for part, centered in zip(_parts(width), parts, strict=True):
        weight, bias = (row[part].astype("float32")[None, :] for row in (gamma, beta))
        outputs[:, part] = (centered * scale[:, None] * weight + bias).astype(outputs.dtype)


def backward_kernel(settings, x, upstream, gamma, mean, inverse, of_x, of_gamma, of_beta):
    """The gradient of every `programs`-th block of rows `(rows, width)`, and the parts of theirs in those of gamma and beta."""
    (count, width), size = x.shape, settings.rows
    program, programs = pallas.program_id(0), pallas.num_programs(0)
    weights = [gamma[part].astype("float32")[None, :] for part in _parts(width)]

    def step(i, carry):
        rows = pallas.ds((program + i * programs) * size, size)
        center, scale = mean[rows][:, None], inverse[rows][:, None]
        normal = [(x[rows, part].astype("float32") - center) * scale for part in _parts(width)]
        gradients = [upstream[rows, part].astype("float32") for part in _parts(width)]
        weighted = [gradient * weight for gradient, weight in zip(gradients, weights, strict=True)]
        average = sum(jnp.sum(part, axis=1, keepdims=True) for part in weighted) / width
        along = sum(jnp.sum(a * b, axis=1, keepdims=True) for a, b in zip(weighted, normal, strict=True)) / width
        for part, a, b in zip(_parts(width), weighted, normal, strict=True):
            of_x[rows, part] = ((a - average - b * along) * scale).astype(of_x.dtype)
        by_gamma = [total + a * b for total, a, b in zip(carry[0], gradients, normal, strict=True)]
        return by_gamma, [total + a for total, a in zip(carry[1], gradients, strict=True)]

    zeros = [jnp.zeros((size, _part(width)), "float32") for _ in _parts(width)]
    blocks = count // size
    by_gamma, by_beta = lax.fori_loop(0, (blocks - program + programs - 1) // programs, step, (zeros, zeros))
    for part, a, b in zip(_parts(width), by_gamma, by_beta, strict=True):
        of_gamma[part], of_beta[part] = jnp.sum(a, axis=0), jnp.sum(b, axis=0)


def _part(width):
    """The largest power of two that divides a width, since Triton loads powers of two."""
    return width & -width


def _parts(width):
    """The parts of a row that are loaded at a time."""
    size = _part(width)
    return [pallas.ds(start, size) for start in range(0, width, size)]
