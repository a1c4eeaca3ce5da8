"""The encoder blocks: creating their layers, finding them in a model, and running them, inside or outside a graph."""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.anatomy.part import ATTENTION, FEED_FORWARD
from keras_bert_rebuild.layers.seam import seam
from keras_bert_rebuild.models.block_convolution import add_convolution, convolution_of, make_convolution

# The two halves of a block, and the layers after the main layer of each half, in the order of the fields of `Half`.
HALVES = (ATTENTION, FEED_FORWARD)
BLOCK_ENDS = ("", "-Dropout", "-Adapter", "-Adapter-Add", "-Add", "-Norm")

# The table of relative positions that blocks share.
RELATIVE = "Embedding-Relative"

# Adapters start close to 0, so that the model initially changes little.
# Reference: Houlsby et al., 2019, section 2 (https://arxiv.org/abs/1902.00751); the deviation is keras_transformer's.
ADAPTER_STDDEV = 0.001


class Half(NamedTuple):
    """The layers of half a block. Dropout is None for a rate of 0, the adapter and its sum are None in a model without adapters,
    the norm is None if another layer has already normalised the input."""

    sub_layer: Any
    dropout: Any
    adapter: Any
    adapter_add: Any
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


def make_initializer(stddev):
    """A new initializer of kernels and tables with this standard deviation."""
    return layers.TruncatedNormal(stddev=stddev)


def make_kernel_settings(stddev):
    """The arguments that give a layer an initializer with this standard deviation; none if it is None."""
    return {} if stddev is None else {"kernel_initializer": make_initializer(stddev)}


def make_norm(norm, name, **settings):
    """Create the layer of an `anatomy.Norm`."""
    if norm.kind == "rms":
        return layers.RMSNormalization(epsilon=norm.epsilon, name=name, **settings)
    bias = {} if norm.bias else {"center": False}
    return layers.LayerNormalization(epsilon=norm.epsilon, name=name, **bias, **settings)


def make_dropout(rate, name):
    """A dropout layer; for a rate of 0 the identity, which adds no row to the summary."""
    return layers.Dropout(rate, name=name) if rate > 0 else lambda x: x


def make_block(block, kernel_settings=dict, *, name=None, adapter_act="gelu", trainable=True):
    """The layers of an encoder block, not yet connected.

    Args:
        block: an `anatomy.Block`.
        kernel_settings: a function that returns the arguments for a layer's initializer.
        name: prefix of the names of its layers; None for "Encoder-" and the number of the block.
        adapter_act: activation inside the adapters.
        trainable: whether attention, feed-forward network and norms are trained. Adapters always are.

    Returns:
        `BlockLayers`.
    """
    name = f"Encoder-{block.number}" if name is None else name
    attention, feed_forward = block.attention, block.feed_forward
    rotary = {} if attention.rotary is None else {"rotary_theta": attention.rotary.theta, "rotary_factor": attention.rotary.factor}
    window = {} if attention.window is None else {"window": attention.window}
    width = {} if attention.head_width is None else {"head_width": attention.head_width}
    kind = layers.MultiHeadSelfAttention if attention.relative is None else _of_distances(attention.relative, block.dropout)
    sub_layers = [
        kind(
            len(attention.present),
            activation=layers.get_activation(attention.activation),
            use_bias=attention.bias,
            attention_dropout=attention.dropout,
            trainable=trainable,
            name=f"{name}-{ATTENTION}",
            **window,
            **rotary,
            **width,
            **kernel_settings(),
        ),
        layers.FeedForward(
            feed_forward.inner,
            activation=layers.get_activation(feed_forward.activation),
            use_bias=feed_forward.bias,
            gated=feed_forward.gated,
            trainable=trainable,
            name=f"{name}-{FEED_FORWARD}",
            **({"dropout_rate": feed_forward.dropout} if feed_forward.dropout else {}),
            **({} if feed_forward.output_bias is None else {"use_output_bias": feed_forward.output_bias}),
            **kernel_settings(),
        ),
    ]
    halves = []
    rates = block.dropout if attention.output_dropout is None else attention.output_dropout, block.dropout
    for sub_layer, rate, has_norm in zip(sub_layers, rates, (block.first_norm, True), strict=True):
        half = sub_layer.name
        halves.append(
            Half(
                sub_layer,
                layers.Dropout(rate, name=f"{half}-Dropout") if rate > 0 else None,
                _make_adapter(block.adapter, adapter_act, f"{half}-Adapter") if block.adapter else None,
                layers.Add(name=f"{half}-Adapter-Add") if block.adapter else None,
                layers.Add(name=f"{half}-Add"),
                make_norm(block.norm, f"{half}-Norm", trainable=trainable) if has_norm else None,
            )
        )
    convolution = None if block.convolution is None else make_convolution(block, name, make_norm, trainable, kernel_settings())
    return BlockLayers(tuple(halves), block.order, convolution)


def block_of(layers_by_name, number, order="post"):
    """An encoder block of a model.

    Args:
        layers_by_name: the layers of a model by name. A missing half is left out, since a model may end within a block.
        number: number of the block, from 1, as in the names of the layers.
        order: see `anatomy.Block`.
    """
    names = [f"Encoder-{number}-{half}" for half in HALVES]
    halves = tuple(Half(*(layers_by_name.get(name + end) for end in BLOCK_ENDS)) for name in names if name in layers_by_name)
    return BlockLayers(halves, order, convolution_of(layers_by_name, number))


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
    pre, came = block.order == "pre", x
    for half in block.halves:
        y = half.norm(x) if pre and half.norm is not None else x
        y = half.sub_layer(_read(half.sub_layer, y, context), **training, **_of_attention(half.sub_layer, context))
        if half.dropout is not None:
            y = half.dropout(y, **training)
        if half.adapter is not None:
            y = half.adapter_add([y, half.adapter(y, **training)])
        x = half.add([x, y])
        if not pre:
            x = half.norm(x)
    return x if block.convolution is None else add_convolution(block.convolution, came, x, context.mask, training)


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


def _of_attention(layer, context):
    """The further arguments of attention."""
    if not layer.name.endswith(ATTENTION):
        return {}
    known = {"mask": context.mask, "positions": context.positions, "content": context.content}
    return {name: value for name, value in known.items() if value is not None}


def _of_distances(relative, dropout):
    """The class of relative attention; dropout of a learned table has the rate of the block."""
    if relative.kind == "relative":
        return layers.RelativeSelfAttention
    return functools.partial(
        layers.DisentangledSelfAttention,
        buckets=relative.buckets,
        reach=relative.reach,
        terms=relative.terms,
        share_keys=relative.shared_keys,
        position_dropout=dropout,
    )


def _make_adapter(size, activation, name):
    """A small feed-forward network, which is `trainable` even if the block is not."""
    return layers.FeedForward(
        size,
        activation=layers.get_activation(activation),
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=ADAPTER_STDDEV),
        name=name,
    )
