"""Embedding and encoder blocks: their layers, made from an anatomy, and the functional graph of both."""

import functools

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.anatomy.part import ATTENTION, CONVOLUTION, FEED_FORWARD
from keras_bert_rebuild.models.encoder_blocks import (
    RELATIVE,
    BlockLayers,
    Context,
    ConvolutionLayers,
    Half,
    block_of,
    input_of,
    run_block,
)

# The norm after the last block, for pre-norm blocks.
FINAL_NORM = "Encoder-Norm"

# The projection of embeddings with another width, and the token table.
MAPPING, TOKEN = "Embedding-Mapping", "Embedding-Token"

# Adapters start close to 0, so that the model initially changes little.
# Reference: Houlsby et al., 2019, section 2 (https://arxiv.org/abs/1902.00751); the deviation is keras_transformer's.
ADAPTER_STDDEV = 0.001


def build_inputs(encoder, seq_len, padding_mask=False):
    """The inputs of the graph by name, int32: `Input-Token`, and `Input-Segment`, `Input-Task`, `Input-Mask` if the model has them.

    Args:
        encoder: an `anatomy.Encoder`.
        seq_len: static length, or None for any.
        padding_mask: whether padding is marked by a separate input (nonzero at real tokens) instead of its id.
    """
    names = ["Input-Token"]
    if encoder.reads_segments:
        names.append("Input-Segment")
    if encoder.embedding.tasks:
        names.append("Input-Task")
    if padding_mask:
        names.append("Input-Mask")
    return {name: keras.Input((1 if name == "Input-Task" else seq_len,), dtype="int32", name=name) for name in names}


def build_encoder(encoder, inputs, embedding_of=None, packed=False):
    """Connect embedding and encoder blocks.

    Args:
        encoder: an `anatomy.Encoder`.
        inputs: the result of `build_inputs`.
        embedding_of: a model with an equal embedding, whose layers are shared, except for the projection; None for new layers.
        packed: whether `Input-Mask` numbers the sequences of a row.

    Returns:
        The outputs of the blocks, first to last, each `(batch, length, hidden)` (the last one after the final norm, if there is
        one; without blocks, only the embedding), and the token table `(vocabulary, embedding)`.
    """
    x, table = _build_embedding(encoder, inputs, packed) if embedding_of is None else _shared_embedding(embedding_of, inputs)
    if encoder.embedding.widened and not encoder.embedding.widened_first:
        x = keras.layers.Dense(encoder.width, name=MAPPING, **make_kernel_settings(encoder.initializer_range))(x)
    blocks = {block.number: make_block(block, lambda: _kernel_settings(encoder)) for block in encoder.distinct}
    outputs, context = [], Context(shared=_build_shared(encoder, inputs, x))
    for block in encoder.blocks:
        x = run_block(blocks[block.number], x, context)
        outputs.append(x)
    outputs = outputs or [x]
    if encoder.final_norm is not None:
        outputs[-1] = make_norm(encoder.final_norm, FINAL_NORM)(outputs[-1])
    return outputs, table


def _kernel_settings(encoder):
    """The initializer arguments of a half of a block."""
    outputs = {} if encoder.output_range is None else {"output_initializer": make_initializer(encoder.output_range)}
    return {**make_kernel_settings(encoder.initializer_range), **outputs}


def _build_embedding(encoder, inputs, packed):
    embedding, stddev = encoder.embedding, encoder.initializer_range
    tokens = inputs["Input-Token"]
    if "Input-Mask" in inputs:
        tokens = [tokens, inputs["Input-Mask"]]
    positions = embedding.positions
    x, table = layers.get_embedding(
        [tokens, inputs.get("Input-Segment")],
        token_num=embedding.tokens,
        pos_num=positions.rows if positions.kind == "table" else 0,
        embed_dim=embedding.width,
        segment_num=embedding.segments,
        pad_id=embedding.pad_id,
        position_offset=positions.offset,
        sinusoidal=positions.kind == "sinusoidal",
        scale=embedding.scale,
        packed=packed,
        initializer=None if stddev is None else lambda: make_initializer(stddev),
    )
    if embedding.tasks:
        task = layers.TaskEmbedding(embedding.tasks, embedding.width, name="Embedding-Task")
        x = task([x, inputs["Input-Task"]])
    if embedding.query:
        settings = {} if stddev is None else {"initializer": make_initializer(stddev)}
        x = layers.QueryEmbedding(trained=embedding.query_trained, name="Embedding-Query", **settings)(x)
    steps = [make_dropout(embedding.dropout, "Embedding-Dropout")]
    if embedding.widened_first:
        settings = make_kernel_settings(stddev)
        steps.append(keras.layers.Dense(encoder.width, use_bias=False, name=MAPPING, **settings))
    if embedding.norm is not None:
        steps.append(make_norm(embedding.norm, "Embedding-Norm"))
    if embedding.normalised_first:  # keras_bert applies dropout before the norm, Google after it
        steps.reverse()
    for step in steps:
        x = step(x)
    return x, table


def _shared_embedding(model, inputs):
    """The embedding of a model, up to its projection, applied to other inputs."""
    names = [layer.name for layer in model.layers]
    last = (
        model.get_layer(MAPPING).input if MAPPING in names else input_of(block_of({layer.name: layer for layer in model.layers}, 1))
    )
    graph = keras.Model([tensor for tensor in model.inputs if tensor.name in inputs], [last, model.get_layer(TOKEN).output[1]])
    tensors = [inputs[tensor.name] for tensor in graph.inputs]
    return keras.models.clone_model(graph, input_tensors=tensors, clone_function=lambda layer: layer).outputs


def _build_shared(encoder, inputs, x):
    """Inputs that the attention of all blocks shares: the vectors of distances, `(rows, hidden)`, and where the segments of two
    tokens differ, `(batch, length, length)`; an empty tuple if there are none."""
    relative, stddev = encoder.relative, encoder.initializer_range
    if relative is None:
        return ()
    if relative.kind == "relative":
        table = layers.DistanceEmbedding(reach=relative.reach or None, name=RELATIVE)(x)
        table = make_dropout(encoder.embedding.dropout, f"{RELATIVE}-Dropout")(table)
        return table, layers.SegmentDifference(name=f"{RELATIVE}-Segment")(inputs["Input-Segment"])
    settings = {} if stddev is None else {"embeddings_initializer": make_initializer(stddev)}
    table = layers.RelativeEmbedding(relative.rows, encoder.width, name=RELATIVE, **settings)(x)
    return (table if relative.norm is None else make_norm(relative.norm, f"{RELATIVE}-Norm")(table),)


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
    kind = layers.MultiHeadSelfAttention if attention.relative is None else _relative_attention(attention.relative, block.dropout)
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
    convolution = None if block.convolution is None else _make_convolution(block, name, trainable, kernel_settings())
    return BlockLayers(tuple(halves), block.order, convolution)


def _relative_attention(relative, dropout):
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


def _make_convolution(block, name, trainable, settings):
    """The layers of the convolution of a block, not yet connected.

    Args:
        block: an `anatomy.Block` with a convolution.
        name: the prefix of the names of the block's layers.
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
