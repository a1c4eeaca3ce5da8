"""Rematerialisation: the activations inside an encoder block are recomputed in the backward pass instead of being stored."""

from dataclasses import replace

import keras
from keras import ops

from keras_bert_rebuild.layers.seam import execution, following


def rematerialised_block(plain, block, x, context):
    """A rule for `run_block` in a training step: the same, rematerialised; arguments as for `run_block`."""
    # TensorFlow requires gradients for every argument, so tensors without any, such as the mask, are not arguments.
    floats = [tensor for tensor in context.shared if "float" in keras.backend.standardize_dtype(tensor.dtype)]
    rest, streams = context.shared[len(floats) :], [] if context.content is None else [context.content]

    def run(x, *tensors):
        content = tensors[-1] if streams else None
        return plain(block, x, replace(context, shared=(*tensors[: len(floats)], *rest), content=content))

    return rematerialised(block.layers, run)(x, *floats, *streams)


def rematerialised(layers, function):
    """A function of tensors through `layers` that stores only the tensors and the weights for the backward pass.

    It is `keras.remat` of a pure function with weights and dropout seeds as inputs and new seeds as outputs, so that the second run
    draws the same numbers and no JAX tracer remains in a variable. (On torch, dropout has no seed; there `keras.remat` saves the
    state of torch's generator.)

    Args:
        layers: all layers that `function` calls.
        function: a function from tensors to a tensor.

    Returns:
        A function with the same values and gradients.

    Reference: Chen et al., 2016 (https://arxiv.org/abs/1604.06174).
    """
    weights, seeds, pure = stateless(layers, function)

    def call(*tensors):
        before = [ops.copy(seed) for seed in seeds]  # torch writes seeds in place
        y, after = recomputed(lambda values, *tensors: pure(values, before, *tensors), weights, *tensors)
        for seed, value in zip(seeds, after, strict=True):
            seed.assign(value)
        return y

    return call


def stateless(layers, function):
    """A function through `layers` as a pure function of their variables.

    Args:
        layers: the layers that `function` calls.
        function: any function.

    Returns:
        The weights of the layers, their dropout seeds, and a function from values of both, as lists, and the arguments of
        `function` to its result and the new seeds.
    """
    weights = _unique(variable for layer in layers for variable in layer.weights)
    weight_ids = {id(variable) for variable in weights}
    seeds = _unique(variable for layer in layers for variable in layer.variables if id(variable) not in weight_ids)

    def pure(values, states, *arguments):
        with keras.StatelessScope(list(zip([*weights, *seeds], [*values, *states], strict=True))) as scope:
            y = function(*arguments)
        return y, [scope.get_current_value(seed) for seed in seeds]

    return weights, seeds, pure


def recomputed(function, weights, *tensors):
    """A function of a list of values of `weights` and of tensors that is recomputed in the backward pass, by the rules of now."""
    now = execution()

    def run(*arguments):
        with following(now):
            return function(*arguments)

    return keras.remat(run)([ops.convert_to_tensor(weight) for weight in weights], *tensors)


def _unique(variables):
    return list({id(variable): variable for variable in variables}.values())
