"""JAX: biases whose gradients are summed in float32, and activations that save no array on a GPU."""

import functools

import jax
import jax.numpy as jnp
import keras
from jax import lax

from keras_bert_rebuild.kernels.conditions import activates_in_training, is_half_product
from keras_bert_rebuild.kernels.jax_devices import is_on_cuda, is_on_processor
from keras_bert_rebuild.kernels.kernel import kernel
from keras_bert_rebuild.kernels.traits import is_half
from keras_bert_rebuild.layers import products
from keras_bert_rebuild.layers.feed_forward import FeedForward


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
    """The same function of tensors with one result, computed in float32, that saves its inputs only.

    XLA would save the most expensive intermediate result, such as the tanh of gelu, which is written to memory and read again. In
    the backward pass the inputs are multiplied by a one that is known only once the upstream gradient is, so XLA must compute it
    again; the inputs themselves are not copied.
    """

    def in_float32(*inputs):
        found = function(*(x.astype(jnp.promote_types(x.dtype, "float32")) for x in inputs))
        return found.astype(jnp.result_type(*inputs))

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
