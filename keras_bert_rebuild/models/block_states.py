"""The hidden states of a model between its blocks, in a step, and their queries, keys and values."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bert_rebuild import kernels
from keras_bert_rebuild.models.encoder import FINAL_NORM
from keras_bert_rebuild.models.encoder_blocks import Context, blocks_of, run_block
from keras_bert_rebuild.models.rematerialised import run_rematerialised_block


def block_states(
    model: keras.Model,
    start: Any,
    mask: Any,
    shared: Sequence[Any] = (),
    *,
    last: int | None = None,
    training: bool | None = None,
    remat: bool = False,
) -> list[Any]:
    """The input of the first block and the output of every block; for the last block of the model after the final norm.

    Args:
        model: a model with a config, such as from `build_model`.
        start: the input of the first block, `(batch, length, hidden)`.
        mask: `(batch, length)`, False at padding, or the numbers of sequences.
        shared: further inputs of all blocks, from `shared_with`.
        last: the number of the last block to run, from 1; 0 for none, None for all.
        training: whether dropout is applied.
        remat: retain only the input of every block for the backward pass.

    Returns:
        A list with one tensor more than blocks that were run, each `(batch, length, hidden)`.
    """
    blocks, states = blocks_of(model), [start]
    for block in blocks[: len(blocks) if last is None else last]:
        if remat:
            states.append(run_rematerialised_block(block, states[-1], mask, shared))
        else:
            states.append(run_block(block, states[-1], Context(mask=mask, training=training, shared=tuple(shared))))
    final = next((layer for layer in model.layers if layer.name == FINAL_NORM), None)
    if final is not None and len(states) == len(blocks) + 1:
        states[-1] = final(states[-1])
    return states


def projections(block: Any, x: Any, names: Sequence[str]) -> dict[str, Any]:
    """The queries, keys or values of a block, with all heads concatenated and before rotary positions.

    Args:
        block: `BlockLayers`.
        x: the input of the block, `(batch, length, hidden)`.
        names: some of "query", "key" and "value".

    Returns:
        A dictionary by name of arrays `(batch, length, hidden)`.
    """
    half = block.halves[0]
    read = half.norm(x) if block.order == "pre" and half.norm is not None else x
    return {name: kernels.dense(getattr(half.sub_layer, f"{name}_dense"), read) for name in names}
