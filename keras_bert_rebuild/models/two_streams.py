"""XLNet's two streams: the content stream, and the query stream that predicts tokens without attending to them."""

from dataclasses import replace
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.slots import at_positions
from keras_bert_rebuild.models.encoder_blocks import Context, run_block
from keras_bert_rebuild.models.encoder_view import EncoderView, Start
from keras_bert_rebuild.models.named_inputs import ids_of

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
    view = two_stream_view(model)
    return two_streams(view, view.embed(ids_of(model, inputs), training), hidden, positions, training)


def two_stream_view(model: keras.Model) -> EncoderView:
    """The encoder of a model, after a check that it can run two streams.

    Raises:
        ValueError: the model has no query vector, no config or no block.
    """
    names = [layer.name for layer in model.layers]
    if QUERY not in names or getattr(model, "config", None) is None or not model.config.num_hidden_layers:
        raise ValueError(f"two streams need a model with a query vector, a config and a block, such as an XLNet; got {model.name}.")
    return EncoderView(model)


def two_streams(view: EncoderView, start: Start, hidden: Any, positions: Any, training: bool | None) -> Any:
    """The vectors of the queries, as for `run_two_streams`.

    Args:
        view: the encoder, from `two_stream_view`.
        start: from its `embed`: the sequence, the sinusoids of the distances, and where segments differ.
        hidden, positions, training: as for `run_two_streams`.
    """
    content, (table, differ) = start.x, start.shared
    seen = ops.logical_and(ops.equal(hidden, 0), start.mask[:, None, :])
    itself = ops.eye(ops.shape(content)[1], dtype="bool")[None]
    of_content = Context(mask=ops.logical_or(seen, itself)[:, None], training=training, shared=(table, differ))
    rows, other = (_rows_at(values, positions) for values in (seen, differ))
    of_query = Context(mask=rows[:, None], positions=positions, training=training, shared=(table, other))
    vector = ops.cast(ops.convert_to_tensor(view.layers[QUERY].vector), content.dtype)
    query = ops.broadcast_to(vector[None], (*ops.shape(rows)[:2], ops.shape(content)[2]))
    if QUERY_DROPOUT in view.layers:
        query = view.layers[QUERY_DROPOUT](query, training=training)
    for number, block in enumerate(view.blocks, 1):
        query = run_block(block, query, replace(of_query, content=content))
        if number < len(view.blocks):
            content = run_block(block, content, of_content)
    return query


def _rows_at(values, positions):
    """The rows of some tokens of a boolean array `(batch, length, length)`."""
    return values if positions is None else ops.cast(at_positions(ops.cast(values, "int32"), positions), "bool")
