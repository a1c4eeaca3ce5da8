"""A convolution over the input of an encoder block, added to its output.

    outputs = norm(block(x) + activation(Dropout(convolution(x))))

Reference: the n-gram layer of version 2 of microsoft/DeBERTa, which He et al., 2021, do not describe.
"""

from typing import Any, NamedTuple

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.anatomy.part import CONVOLUTION

# The suffixes of its layers' names, in the order of the fields of `ConvolutionLayers`.
CONVOLUTION_ENDS = ("", "-Dropout", "-Activation", "-Add", "-Norm")


class ConvolutionLayers(NamedTuple):
    """The layers of the convolution of a block. Dropout is None for a rate of 0."""

    convolution: Any
    dropout: Any
    activation: Any
    add: Any
    norm: Any


def make_convolution(block, name, make_norm, trainable, settings):
    """The layers of the convolution of a block, not yet connected.

    Args:
        block: an `anatomy.Block` with a convolution.
        name: the prefix of the names of the block's layers.
        make_norm: a function that creates the layer of an `anatomy.Norm`.
        trainable: whether the layers are trained.
        settings: arguments that set the initializer of the kernel.
    """
    name, convolution = f"{name}-{CONVOLUTION}", block.convolution
    return ConvolutionLayers(
        layers.MaskedConv1D(convolution.width, convolution.size, padding="same", trainable=trainable, name=name, **settings),
        layers.Dropout(block.dropout, name=f"{name}-Dropout") if block.dropout > 0 else None,
        keras.layers.Activation(layers.get_activation(convolution.activation), name=f"{name}-Activation"),
        layers.Add(name=f"{name}-Add"),
        make_norm(block.norm, f"{name}-Norm", trainable=trainable),
    )


def convolution_of(layers_by_name, number):
    """The convolution of a block of a model; None if there is none."""
    found = ConvolutionLayers(*(layers_by_name.get(f"Encoder-{number}-{CONVOLUTION}{end}") for end in CONVOLUTION_ENDS))
    return None if found.convolution is None else found


def add_convolution(made, read, x, mask, training):
    """The output of a block plus its convolution, normalised.

    Args:
        made: `ConvolutionLayers`.
        read: the input of the block, `(batch, length, hidden)`.
        x: the output of the block.
        mask: `(batch, length)`, False at padding, which the convolution reads as zeros; None in a graph.
        training: the `training` argument of dropout, as a dictionary.
    """
    y = made.convolution(read) if mask is None else made.convolution(read, mask=mask)
    if made.dropout is not None:
        y = made.dropout(y, **training)
    return made.norm(made.add([x, made.activation(y)]))
