"""Rematerialisation: the activations inside an encoder block are recomputed in the backward pass instead of being stored."""

import functools

import keras
from keras import ops

from keras_bert_rebuild.anatomy.heads import FIRST_TOKEN, LAST, MEAN, POOLED
from keras_bert_rebuild.models.encoder import FINAL_NORM
from keras_bert_rebuild.models.encoder_blocks import Context, blocks_of, run_block
from keras_bert_rebuild.models.heads import before_logits


def run_rematerialised(model, embedding, inputs, mask, heads):
    """Run the graph up to the last layers of the heads in a training step, with rematerialised encoder blocks.

    Args:
        model: a model with a config, from `build_model`.
        embedding: the part of its graph up to the first block, with the sequence, the token table and the shared inputs of blocks
            as outputs.
        inputs: the inputs of the model.
        mask: `(batch, length)`, False at padding.
        heads: names of the outputs besides the MLM head.

    Returns:
        The last block's output, the token table, and for each head the input of its last layer.
    """
    x, table, *shared = embedding(inputs, training=True)
    layers = {layer.name: layer for layer in model.layers}
    for block in blocks_of(model):
        x = run_rematerialised_block(block, x, mask, shared)
    if FINAL_NORM in layers:
        x = layers[FINAL_NORM](x)
    answers, reads = [], before_logits(model.config.encoder())
    for head in heads:
        y = x
        for name in reads.get(head, ()):
            settings = {"mask": mask} if name in (MEAN, LAST, FIRST_TOKEN, POOLED[0]) else {"training": True}
            y = layers[name](y, **settings) if name in layers else y
        answers.append(y)
    return x, table, *answers


def run_rematerialised_block(block, x, mask, shared=()):
    """Run an encoder block in a training step as `run_block` does, rematerialised.

    Args:
        block: `BlockLayers`.
        x: `(batch, length, hidden)`.
        mask: `(batch, length)`, False at padding.
        shared: inputs that blocks share, floats first.
    """
    # TensorFlow requires gradients for every argument, so tensors without any, such as the mask, are not arguments.
    floats = [tensor for tensor in shared if "float" in keras.backend.standardize_dtype(tensor.dtype)]
    others = shared[len(floats) :]
    return rematerialised(block.layers, functools.partial(_run_block, block, mask, others))(x, *floats)


def _run_block(block, mask, others, x, *floats):
    return run_block(block, x, Context(mask=mask, training=True, shared=(*floats, *others)))


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
    known = {id(variable) for variable in weights}
    seeds = _unique(variable for layer in layers for variable in layer.variables if id(variable) not in known)

    def pure(values, states, *arguments):
        with keras.StatelessScope(list(zip([*weights, *seeds], [*values, *states], strict=True))) as scope:
            y = function(*arguments)
        return y, [scope.get_current_value(seed) for seed in seeds]

    return weights, seeds, pure


def recomputed(function, weights, *tensors):
    """A function of a list of values of `weights` and of tensors that is recomputed in the backward pass."""
    return keras.remat(function)([ops.convert_to_tensor(weight) for weight in weights], *tensors)


def _unique(variables):
    return list({id(variable): variable for variable in variables}.values())
