"""XLNet's two streams: the content stream, and the query stream that predicts tokens without attending to them."""

import functools
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.kernels.slots import at_positions
from keras_bert_rebuild.models.encoder_blocks import Context, blocks_of, input_of, run_block, shared_with
from keras_bert_rebuild.models.named_inputs import ids_of, real_tokens
from keras_bert_rebuild.models.rematerialised import rematerialised

# The layer with the initial vector of queries, and the dropout after it.
QUERY, QUERY_DROPOUT = "Embedding-Query", "Embedding-Dropout"


def run_two_streams(model: keras.Model, inputs: Any, hidden: Any, positions: Any = None, training: bool | None = None) -> Any:
    """Run the query stream through the blocks of a model, together with the content stream.

        h = h_block(queries h, keys and values h)        token i attends to what `hidden` does not hide from it, and to itself
        g = g_block(queries g, keys and values h)        token i attends to what `hidden` does not hide from it

    Both streams have the same weights. h starts from the token embeddings, g from the single vector of `QueryEmbedding`, and gets
    its position only from relative distances. The last block runs for g only.

    Args:
        model: an XLNet with a config; heads are not run.
        inputs: the inputs of the model, a list of arrays `(batch, length)` in order or a dictionary by name.
        hidden: nonzero if a token (second axis) must not attend to another (third axis), `(batch, length, length)`; the `perm_mask`
            of other libraries. Padding is hidden from all.
        positions: positions of the queries, `(batch, slots)`; None for a query at every token.
        training: whether dropout is applied.

    Returns:
        The vectors of the queries after the last block, `(batch, slots, hidden)`.

    Raises:
        ValueError: the model has no query vector, or no block.

    Reference: Yang et al., 2019, section 2.3 (https://arxiv.org/abs/1906.08237).
    """
    layers, blocks = check_two_streams(model), blocks_of(model)
    ids = ids_of(model, inputs)
    start = keras.Model(model.inputs, [input_of(blocks[0]), *shared_with(blocks[0])])([*ids.values()], training=training)
    return two_streams(layers, blocks, start, ids, hidden, positions, training)


def check_two_streams(model):
    """The layers of a model by name, after a check that it can run two streams.

    Raises:
        ValueError: the model has no query vector, no config or no block.
    """
    layers = {layer.name: layer for layer in model.layers}
    if QUERY not in layers or getattr(model, "config", None) is None or not model.config.num_hidden_layers:
        raise ValueError(f"two streams need a model with a query vector, a config and a block, such as an XLNet; got {model.name}.")
    return layers


def two_streams(layers, blocks, start, ids, hidden, positions, training, remat=False):
    """The vectors of the queries, as for `run_two_streams`.

    Args:
        layers: the layers of the model by name.
        blocks: the result of `blocks_of`.
        start: the input of the first block, the sinusoids of the distances, and where segments differ.
        ids: the result of `ids_of`.
        hidden, positions, training: as for `run_two_streams`.
        remat: whether a block stores only its inputs for the backward pass, in each stream.
    """
    content, table, differ = start
    seen = ops.logical_and(ops.equal(hidden, 0), real_tokens(layers, ids)[:, None, :])
    itself = ops.eye(ops.shape(content)[1], dtype="bool")[None]
    of_content = Context(mask=ops.logical_or(seen, itself)[:, None], training=training, shared=(differ,))
    rows, other = (_rows_at(values, positions) for values in (seen, differ))
    of_query = Context(mask=rows[:, None], positions=positions, training=training, shared=(other,))
    vector = ops.cast(ops.convert_to_tensor(layers[QUERY].vector), content.dtype)
    query = ops.broadcast_to(vector[None], (*ops.shape(rows)[:2], ops.shape(content)[2]))
    if QUERY_DROPOUT in layers:
        query = layers[QUERY_DROPOUT](query, training=training)
    for number, block in enumerate(blocks, 1):
        run_query, run_content = functools.partial(_run, block, of_query), functools.partial(_run, block, of_content)
        if remat:
            run_query, run_content = (rematerialised(block.layers, run) for run in (run_query, run_content))
        query = run_query(query, table, content)
        if number < len(blocks):
            content = run_content(content, table)
    return query


def _run(block, context, x, table, content=None):
    """Run a block on one stream; tensors with gradients are arguments, as `rematerialised` requires."""
    return run_block(block, x, replace(context, shared=(table, *context.shared), content=content))


def _rows_at(values, positions):
    """The rows of some tokens of a boolean array `(batch, length, length)`."""
    return values if positions is None else ops.cast(at_positions(ops.cast(values, "int32"), positions), "bool")
