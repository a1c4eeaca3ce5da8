"""The encoder blocks: making their layers, finding them in a model, and running them, in a graph or outside of it."""

from typing import Any, NamedTuple

import keras

from keras_bert_rebuild import layers

# The two halves of a block, and what follows each half's own layer, in the order of the fields of `Half`.
HALVES = ("MultiHeadSelfAttention", "FeedForward")
BLOCK_ENDS = ("", "-Dropout", "-Adapter", "-Adapter-Add", "-Add", "-Norm")

# An adapter that is nearly nothing changes nearly nothing: the model begins as it was.
# Reference: Houlsby et al., 2019, section 2 (https://arxiv.org/abs/1902.00751); the deviation is keras_transformer's.
ADAPTER_STDDEV = 0.001


class Half(NamedTuple):
    """The layers of half a block. Dropout is None with rate 0, the adapter and its sum are None in a model without adapters."""

    sub_layer: Any
    dropout: Any
    adapter: Any
    adapter_add: Any
    add: Any
    norm: Any


def make_block(
    name,
    *,
    num_heads,
    intermediate_size,
    attention_act=None,
    hidden_act="relu",
    dropout_rate=0.0,
    attention_dropout=0.0,
    adapter_size=0,
    adapter_act="gelu",
    norm_settings=None,
    kernel_settings=dict,
    trainable=True,
):
    """The layers of an encoder block, not yet connected.

    Args:
        name: what their names begin with, such as "Encoder-1".
        num_heads: of the attention.
        intermediate_size: width inside the feed-forward half.
        attention_act, hidden_act, adapter_act: activations, as for `layers.get_activation`.
        dropout_rate: of what each half answers; not above 0 for no dropout layers.
        attention_dropout: rate at which attention probabilities are dropped.
        adapter_size: width inside the adapters; 0 for none.
        norm_settings: arguments of the norms, a dictionary.
        kernel_settings: a function that makes the arguments which give a layer its initializer.
        trainable: whether attention, feed-forward half and norms are trained. Adapters are there to be trained.

    Returns:
        Two `Half`s.
    """
    attention, feed_forward = (f"{name}-{half}" for half in HALVES)
    sub_layers = [
        layers.MultiHeadSelfAttention(
            num_heads,
            activation=layers.get_activation(attention_act),
            attention_dropout=attention_dropout,
            trainable=trainable,
            name=attention,
            **kernel_settings(),
        ),
        layers.FeedForward(
            intermediate_size,
            activation=layers.get_activation(hidden_act),
            trainable=trainable,
            name=feed_forward,
            **kernel_settings(),
        ),
    ]
    return [
        Half(
            sub_layer,
            layers.Dropout(dropout_rate, name=f"{sub_layer.name}-Dropout") if dropout_rate > 0 else None,
            _make_adapter(adapter_size, adapter_act, f"{sub_layer.name}-Adapter") if adapter_size else None,
            layers.Add(name=f"{sub_layer.name}-Adapter-Add") if adapter_size else None,
            layers.Add(name=f"{sub_layer.name}-Add"),
            layers.LayerNormalization(**(norm_settings or {}), trainable=trainable, name=f"{sub_layer.name}-Norm"),
        )
        for sub_layer in sub_layers
    ]


def block_of(layers_by_name, number):
    """An encoder block as a list of its halves.

    Args:
        layers_by_name: the layers of a model by name. A half that is not among them is left out: a model may end within a block.
        number: from 1 on, as in the names of the layers.
    """
    names = [f"Encoder-{number}-{half}" for half in HALVES]
    return [Half(*(layers_by_name.get(name + end) for end in BLOCK_ENDS)) for name in names if name in layers_by_name]


def run_block(block, x, mask=None, training=None):
    """LayerNorm(x + y) for each half, y being Dropout(layer(x)), to which an adapter adds what it makes of it.

    Without `mask` and `training` this makes the graph. Outside of a call of the model every layer is told whether it trains.

    Args:
        block: as from `make_block` or `block_of`.
        x: `(batch, length, hidden)`.
        mask: `(batch, length)`, False at padding. Attached to `x` it would be lost where a backend calls a block again.
        training: whether dropout is drawn.

    Returns:
        `(batch, length, hidden)`.

    Reference: Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """
    flags = {} if training is None else {"training": training}
    for half in block:
        own_mask = {"mask": mask} if mask is not None and half.sub_layer.name.endswith(HALVES[0]) else {}
        y = half.sub_layer(x, **flags, **own_mask)
        if half.dropout is not None:
            y = half.dropout(y, **flags)
        if half.adapter is not None:
            y = half.adapter_add([y, half.adapter(y, **flags)])
        x = half.norm(half.add([x, y]))
    return x


def _make_adapter(size, activation, name):
    """A small feed-forward block, which is `trainable` even where the block is not."""
    return layers.FeedForward(
        size,
        activation=layers.get_activation(activation),
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=ADAPTER_STDDEV),
        name=name,
    )
