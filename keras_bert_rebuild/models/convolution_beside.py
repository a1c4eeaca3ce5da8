"""A convolution beside an encoder block: it reads the input of the block and adds to its output.

    outputs = norm(block(x) + activation(Dropout(convolution(x))))

Reference: the n-gram layer of version 2 of microsoft/DeBERTa, which He et al., 2021, do not describe.
"""

from typing import Any, NamedTuple

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.anatomy.parts import CONVOLUTION

# The ends of the names of its layers, in the order of the fields of `Beside`.
BESIDE_ENDS = ("", "-Dropout", "-Activation", "-Add", "-Norm")


class Beside(NamedTuple):
    """The layers of a convolution beside a block. Dropout is None with rate 0."""

    convolution: Any
    dropout: Any
    activation: Any
    add: Any
    norm: Any


def make_beside(block, name, make_norm, trainable, settings):
    """The layers of the convolution beside a block, not yet connected.

    Args:
        block: an `anatomy.Block` with a convolution.
        name: what the names of the layers of the block begin with.
        make_norm: a function that makes the layer of an `anatomy.Norm`.
        trainable: whether they are trained.
        settings: the arguments for the initializer of the kernel.
    """
    name, convolution = f"{name}-{CONVOLUTION}", block.convolution
    return Beside(
        layers.MaskedConv1D(convolution.width, convolution.size, padding="same", trainable=trainable, name=name, **settings),
        layers.Dropout(block.dropout, name=f"{name}-Dropout") if block.dropout > 0 else None,
        keras.layers.Activation(layers.get_activation(convolution.activation), name=f"{name}-Activation"),
        layers.Add(name=f"{name}-Add"),
        make_norm(block.norm, f"{name}-Norm", trainable=trainable),
    )


def beside_of(layers_by_name, number):
    """The convolution beside a block of a model; None if there is none."""
    found = Beside(*(layers_by_name.get(f"Encoder-{number}-{CONVOLUTION}{end}") for end in BESIDE_ENDS))
    return None if found.convolution is None else found


def add_beside(beside, read, x, mask, training):
    """The output of a block and the convolution beside it, normalised.

    Args:
        beside: a `Beside`.
        read: the input of the block, `(batch, length, hidden)`.
        x: its output.
        mask: `(batch, length)`, False at padding, which the convolution takes for zeros; None in a graph.
        training: the argument for dropout, as a dictionary.
    """
    y = beside.convolution(read) if mask is None else beside.convolution(read, mask=mask)
    if beside.dropout is not None:
        y = beside.dropout(y, **training)
    return beside.norm(beside.add([x, beside.activation(y)]))
