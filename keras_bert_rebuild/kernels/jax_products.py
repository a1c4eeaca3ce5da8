"""JAX: products of bfloat16, which a processor computes twice as fast if XLA may keep their sums in float32.

XLA has the processor's own instructions for products of bfloat16 whose result is float32. Where the result is bfloat16, or where
one factor is transposed within the product, it converts both factors to float32 and multiplies those.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from keras_bert_rebuild.kernels.conditions import is_product
from keras_bert_rebuild.kernels.jax_devices import is_on_processor
from keras_bert_rebuild.kernels.kernel import kernel
from keras_bert_rebuild.layers import products


def gives_float32(dtype):
    """Whether products of numbers of this dtype are faster here if their result is float32."""
    return dtype == "bfloat16" and is_on_processor()


def product(x, y, x_axes, y_axes, batch=0):
    """Sums over axes of the products of two arrays: float32 if that is faster, else in the dtype of both.

    Args:
        x, y: arrays of one dtype.
        x_axes, y_axes: tuples of the axes to sum over, counted from the front.
        batch: how many axes at the front both have; so does the result.

    Returns:
        The axes of the batch, then the remaining ones of `x`, then those of `y`.
    """
    fast = gives_float32(x.dtype)
    if fast and batch > 1:
        # XLA converts factors with several such axes to float32, too.
        merged = (factor.reshape(-1, *factor.shape[batch:]) for factor in (x, y))
        x_axes, y_axes = (tuple(axis - batch + 1 for axis in axes) for axes in (x_axes, y_axes))
        sums = product(*merged, x_axes, y_axes, 1)
        return sums.reshape(*x.shape[:batch], *sums.shape[1:])
    if fast and x_axes == (batch,):
        # With a second axis to sum over, of size 1, XLA transposes in bfloat16 before the product, and not within it.
        x, y = (jnp.expand_dims(factor, batch) for factor in (x, y))
        x_axes, y_axes = ((batch, axis + 1) for axis in (*x_axes, *y_axes))
    front = tuple(range(batch))
    return lax.dot_general(x, y, ((x_axes, y_axes), (front, front)), preferred_element_type="float32" if fast else x.dtype)


def _is_product_on_processor(dense, *arguments):
    return is_product(dense) and gives_float32(dense.compute_dtype)


@kernel(products.product, "jax", when=_is_product_on_processor)
def dense(rest, layer, x, call=None):
    """XLA multiplies as in float32, at half the speed, unless the result is float32.

    Measured: Products of bfloat16 on JAX
    """
    x, kernel = (jnp.asarray(tensor, layer.compute_dtype) for tensor in (x, layer.kernel))
    outputs = product_of_rows(x, kernel, 0).astype(x.dtype)
    return outputs if layer.bias is None else products.add_bias(outputs, layer.bias)


@kernel(products.similarities, "jax", when=lambda features, table: gives_float32(str(features.dtype)))
def similarities(rest, features, table):
    """XLA multiplies as in float32, at half the speed, unless the result is float32.

    Measured: Products of bfloat16 on JAX
    """
    return product_of_rows(features, table, 1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product_of_rows(x, matrix, axis):
    """The product over the last axis of `x` and one of the two of a matrix, whose gradients are such products, too.

    JAX would multiply the gradient of a float32 result, which is float32, by factors of bfloat16.

    Args:
        x: `(..., width)`.
        matrix: `(width, units)` for axis 0, `(units, width)` for 1, in the dtype of `x`.
        axis: that of the matrix.
    """
    return product(x, matrix, (x.ndim - 1,), (axis,))


def _backward(axis, factors, upstream):
    x, matrix = factors
    upstream = upstream.astype(x.dtype)
    rows = tuple(range(x.ndim - 1))
    pair = (upstream, x) if axis else (x, upstream)
    of_x = product(upstream, matrix, (x.ndim - 1,), (1 - axis,))
    return of_x.astype(x.dtype), product(*pair, rows, rows).astype(matrix.dtype)


product_of_rows.defvjp(lambda x, matrix, axis: (product_of_rows(x, matrix, axis), (x, matrix)), _backward)
