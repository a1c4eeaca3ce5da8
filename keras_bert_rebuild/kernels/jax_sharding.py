"""JAX: weights that replicas share, see `distribute("sharded")`, are gathered where they are used.

Left to itself, XLA gathers the activations of the whole batch for each product instead, and computes it in parts of the weights.
"""

import functools

import jax
import keras
from keras.distribution import ModelParallel, TensorLayout

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.kernel import kernel


def may_share(*_):
    """Whether replicas may share weights."""
    return isinstance(keras.distribution.distribution(), ModelParallel)


def shares(variable):
    """The sharding of a variable over all devices, and that over the devices of one replica; None if replicas do not share it."""
    distribution = keras.distribution.distribution()
    part, batch = distribution.get_variable_layout(variable), distribution.batch_dim_name
    if batch not in part.axes:
        return None
    whole = TensorLayout([None if axis == batch else axis for axis in part.axes], part.device_mesh)
    return part.backend_layout, whole.backend_layout


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def gather(value, part, whole):
    """The whole of a weight; its gradient is summed and divided at once."""
    return jax.lax.with_sharding_constraint(value, whole)


gather.defvjp(
    lambda value, part, whole: (gather(value, part, whole), None),
    lambda part, whole, _, gradient: (jax.lax.with_sharding_constraint(gradient, part),),
)


def gathered(variables, values):
    """Values of variables, each whole."""
    layouts = map(shares, variables)
    return [value if pair is None else gather(value, *pair) for value, pair in zip(values, layouts, strict=True)]


@kernel(operations.with_whole_weights, "jax", when=may_share)
def gather_weights(rest, call, model):
    """Frozen weights are returned as they came, in parts.

    Measured: tests/tpu/test_tpu_compiler.py: the memory of a step
    """

    def call_with_whole(trained, frozen, *args, **kwargs):
        whole = gathered(model.non_trainable_variables, frozen)
        outputs, after, *losses = call(gathered(model.trainable_variables, trained), whole, *args, **kwargs)
        after = [before if new is used else new for before, used, new in zip(frozen, whole, after, strict=True)]
        return outputs, after, *losses

    return call_with_whole
