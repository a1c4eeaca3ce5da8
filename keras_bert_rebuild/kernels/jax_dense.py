"""JAX: products of bfloat16, which a processor computes twice as fast if XLA may keep their sums in float32; biases whose gradients
are summed in float32; and activations that save no array on a GPU."""

import functools

import jax
import jax.numpy as jnp
import keras
from jax import lax

from keras_bert_rebuild.kernels.jax_devices import is_on_cuda, is_on_processor
from keras_bert_rebuild.kernels.kernel import activates_in_training, is_half_product, is_product, kernel
from keras_bert_rebuild.kernels.traits import is_half
from keras_bert_rebuild.layers import products
from keras_bert_rebuild.layers.feed_forward import FeedForward


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


def _activates_on_cuda_or_processor(layer, x, training=None):
    return activates_in_training(layer, x, training) and (is_on_cuda() or is_on_processor())


@kernel(FeedForward.activate, "jax", when=_activates_on_cuda_or_processor)
def activate(rest, layer, x, training=None):
    """XLA saves the tanh of gelu, another pass over the widest array of a block, and computes in half precision.

    Measured: Where a step on a GPU spends its time
    """
    return recomputed(layer.activation)(x)


@functools.cache
def recomputed(function):
    """A function of tensors with one result, computed in float32, that saves its inputs only.

    XLA would save the most expensive intermediate result, such as the tanh of gelu, which is written to memory and read again. In
    the backward pass the inputs are multiplied by a one that is known only once the upstream gradient is, so XLA must compute it
    again; the inputs themselves are not copied.
    """

    def in_float32(*inputs):
        outputs = function(*(x.astype(jnp.promote_types(x.dtype, "float32")) for x in inputs))
        return outputs.astype(jnp.result_type(*inputs))

    @jax.custom_vjp
    def kernel(*inputs):
        return in_float32(*inputs)

    def backward(inputs, upstream):
        one, upstream = lax.optimization_barrier((jnp.ones((), "float32"), upstream))
        return jax.vjp(in_float32, *(x * one.astype(x.dtype) for x in inputs))[1](upstream)

    kernel.defvjp(lambda *inputs: (in_float32(*inputs), inputs), backward)
    return kernel


@kernel(products.product, "jax", when=is_half_product)
def product_with_bias(rest, dense, x, call=None):
    """XLA sums the gradient of a bias over all tokens in half precision; here it is summed in float32.

    Measured: tests/kernels/test_kernels.py for the sums; at no cost on a GPU
    """
    if dense.bias is None:
        return rest(dense, x, call)
    x, kernel = (jnp.asarray(tensor, dense.compute_dtype) for tensor in (x, dense.kernel))
    return add_bias(jnp.matmul(x, kernel), jnp.asarray(dense.bias))


@kernel(products.add_bias, "jax", when=lambda x, bias: is_half(keras.backend.standardize_dtype(x.dtype)))
def add_bias_in_half(rest, x, bias):
    """XLA sums the gradient of a bias over all tokens in half precision; here it is summed in float32.

    Measured: tests/kernels/test_kernels.py for the sums
    """
    return add_bias(x, jnp.asarray(bias))


@jax.custom_vjp
def add_bias(x, bias):
    """x + bias, whose bias has a gradient summed in float32.

    XLA sums numbers of half precision in half precision on a GPU, and in two stages on a processor: over the tokens of a batch most
    of each is lost.

    Args:
        x: `(..., *shape)`.
        bias: `(*shape)`.
    """
    return x + bias.astype(x.dtype)


def _bias_backward(bias, upstream):
    numbers = _in_float32(upstream)
    return upstream, jnp.sum(numbers, axis=tuple(range(upstream.ndim - bias.ndim))).astype(bias.dtype)


def _in_float32(x):
    """The numbers in float32, for bfloat16 by moving their bits.

    XLA leaves out that the gradient was rounded before, sums the numbers before rounding, and for that writes the whole array in
    float32, too.
    """
    if x.dtype != "bfloat16":
        return x.astype(jnp.promote_types(x.dtype, "float32"))
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, "uint16").astype("uint32") << 16, "float32")


add_bias.defvjp(lambda x, bias: (add_bias(x, bias), bias), _bias_backward)
