"""Embedding and encoder blocks as a functional graph, built from an anatomy."""

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.models.encoder_blocks import (
    RELATIVE,
    Context,
    block_of,
    input_of,
    make_block,
    make_dropout,
    make_initializer,
    make_kernel_settings,
    make_norm,
    run_block,
)

# The norm after the last block, for pre-norm blocks.
FINAL_NORM = "Encoder-Norm"

# The projection of embeddings with another width, and the token table.
MAPPING, TOKEN = "Embedding-Mapping", "Embedding-Token"


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
    given = [inputs[tensor.name] for tensor in graph.inputs]
    return keras.models.clone_model(graph, input_tensors=given, clone_function=lambda layer: layer).outputs


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
