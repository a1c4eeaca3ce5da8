"""The encoder blocks: their layers, finding them in a model, and running them, inside or outside a graph."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from keras_bert_rebuild.anatomy.part import ATTENTION, CONVOLUTION, FEED_FORWARD
from keras_bert_rebuild.layers.seam import seam

# The two halves of a block, and the layers after the main layer of each half, in the order of the fields of `Half`.
HALVES = (ATTENTION, FEED_FORWARD)
BLOCK_ENDS = ("", "-Dropout", "-Adapter", "-Adapter-Add", "-Add", "-Norm")

# The suffixes of its layers' names, in the order of the fields of `ConvolutionLayers`.
CONVOLUTION_ENDS = ("", "-Dropout", "-Activation", "-Add", "-Norm")

# The table of relative positions that blocks share.
RELATIVE = "Embedding-Relative"


class Half(NamedTuple):
    """The layers of half a block. Dropout is None for a rate of 0, the adapter and its sum are None in a model without adapters,
    the norm is None if another layer has already normalised the input."""

    sub_layer: Any
    dropout: Any
    adapter: Any
    adapter_add: Any
    add: Any
    norm: Any


class ConvolutionLayers(NamedTuple):
    """The layers of a convolution over the input of a block, which is added to its output. Dropout is None for a rate of 0.

        outputs = norm(block(x) + activation(Dropout(convolution(x))))

    Reference: the n-gram layer of version 2 of microsoft/DeBERTa, which He et al., 2021, do not describe.
    """

    convolution: Any
    dropout: Any
    activation: Any
    add: Any
    norm: Any


class BlockLayers(NamedTuple):
    """The layers of a block: its halves, "pre" or "post" norm, and its convolution."""

    halves: tuple
    order: str = "post"
    convolution: Any = None

    @property
    def fields(self):
        """The layers in the order of the fields, None where there is none."""
        return [layer for part in (*self.halves, self.convolution or ()) for layer in part]

    @property
    def layers(self):
        """All layers, in this order."""
        return [layer for layer in self.fields if layer is not None]

    @property
    def attention(self):
        """The layer in which tokens read each other."""
        return self.halves[0].sub_layer

    @property
    def last(self):
        """The layer whose output is that of the block; None in a block that is left out or ends before it."""
        if not self.halves:
            return None
        if self.convolution is not None:
            return self.convolution.norm
        return self.halves[-1].add if self.order == "pre" else self.halves[-1].norm

    def first_of(self, half):
        """The layer of a half that reads the input of the half."""
        return half.sub_layer if self.order == "post" or half.norm is None else half.norm


@dataclass(frozen=True)
class Context:
    """The inputs of a block besides the sequence. Empty in a graph, where Keras passes on mask and training."""

    mask: Any = None
    """`(batch, length)`, False at padding. If it were attached to the sequence, recomputing a block would lose it."""

    positions: Any = None
    """`(batch, length)`, the offset of every token for rotary positions; None counts from 0."""

    training: bool | None = None
    """Whether dropout is applied."""

    content: Any = None
    """`(batch, length, hidden)`, the sequence of keys and values if the block runs XLNet's query stream. The mask is then
    `(batch, 1, slots, length)`, and `positions` are the positions of the queries in the sequence."""

    shared: tuple = ()
    """Further inputs of attention that all blocks share, such as a table of distances `(rows, hidden)`, floats first; set in a
    graph, too."""


# For a block in a graph.
IN_GRAPH = Context()


def block_of(layers_by_name, number, order="post"):
    """An encoder block of a model.

    Args:
        layers_by_name: the layers of a model by name. A missing half is left out, since a model may end within a block.
        number: number of the block, from 1, as in the names of the layers.
        order: see `anatomy.Block`.
    """
    names = [f"Encoder-{number}-{half}" for half in HALVES]
    halves = tuple(Half(*(layers_by_name.get(name + end) for end in BLOCK_ENDS)) for name in names if name in layers_by_name)
    return BlockLayers(halves, order, _convolution_of(layers_by_name, number))


@seam
def run_block(block, x, context=IN_GRAPH):
    """Run an encoder block: y = Dropout(layer(x)) for each half; an adapter adds its own output to y.

        "post":  x = norm(x + y(x))
        "pre":   x = x + y(norm(x))

    A convolution over the input of the block is added to its output: x = norm(x + act(Dropout(convolution(input)))).

    If `context` has nothing but `shared`, this builds the graph. Outside a call of the model, `context.training` is passed to
    every layer.

    Args:
        block: `BlockLayers`.
        x: `(batch, length, hidden)`.
        context: a `Context`.

    Returns:
        `(batch, length, hidden)`.

    Reference: Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762); Xiong et al., 2020, for "pre"
    (https://arxiv.org/abs/2002.04745).
    """
    training = {} if context.training is None else {"training": context.training}
    pre, residual = block.order == "pre", x
    for half in block.halves:
        y = half.norm(x) if pre and half.norm is not None else x
        y = half.sub_layer(_read(half.sub_layer, y, context), **training, **_attention_arguments(half.sub_layer, context))
        if half.dropout is not None:
            y = half.dropout(y, **training)
        if half.adapter is not None:
            y = half.adapter_add([y, half.adapter(y, **training)])
        x = half.add([x, y])
        if not pre:
            x = half.norm(x)
    return x if block.convolution is None else _add_convolution(block.convolution, residual, x, context.mask, training)


def input_of(block):
    """The symbolic input of a block in its original graph; for a shared block, of its first run.

    Args:
        block: `BlockLayers`.
    """
    layer = block.first_of(block.halves[0])
    return layer.input[0] if isinstance(layer.input, (list, tuple)) else layer.input


def shared_with(block):
    """The list of symbolic tensors that the attention of a block reads besides the sequence, and that all blocks share.

    Args:
        block: `BlockLayers`.
    """
    read = block.halves[0].sub_layer.input
    return list(read[1:]) if isinstance(read, (list, tuple)) else []


def _read(layer, x, context):
    """The input of a layer; some attention layers also read the shared inputs."""
    return [x, *context.shared] if context.shared and layer.name.endswith(ATTENTION) else x


def _attention_arguments(layer, context):
    """The further arguments of attention."""
    if not layer.name.endswith(ATTENTION):
        return {}
    arguments = {"mask": context.mask, "positions": context.positions, "content": context.content}
    return {name: value for name, value in arguments.items() if value is not None}


def _convolution_of(layers_by_name, number):
    """The convolution of a block of a model; None if there is none."""
    convolution = ConvolutionLayers(*(layers_by_name.get(f"Encoder-{number}-{CONVOLUTION}{end}") for end in CONVOLUTION_ENDS))
    return None if convolution.convolution is None else convolution


def _add_convolution(made, read, x, mask, training):
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
