"""Encoder blocks on the tokens of a batch alone, without its padding, in training steps that read nothing at padding."""

import functools
from collections.abc import Sequence
from typing import Any

import keras

from keras_bert_rebuild.layers import Add, Dropout, FeedForward, LayerNormalization, MultiHeadSelfAttention, RMSNormalization
from keras_bert_rebuild.models.encoder_blocks import BlockLayers, Context, blocks_of, run_block

# Layers that compute each token by itself, and attention, which knows where tokens are; subclasses may do otherwise.
OF_TOKENS = {Add, Dropout, FeedForward, LayerNormalization, MultiHeadSelfAttention, RMSNormalization}


def runs_on_tokens_alone(model: keras.Model) -> bool:
    """Whether all blocks of a model can: they share no table of distances, and are of layers of ours, without regularised outputs.

    Args:
        model: from `build_model`.
    """
    if model.config is None or model.config.encoder().relative is not None:
        return False
    layers = [layer for block in blocks_of(model) for layer in block.layers]
    # Keras divides the loss of a regulariser of outputs by the first dimension, which is 1 here.
    return bool(layers) and all(type(layer) in OF_TOKENS and layer.activity_regularizer is None for layer in layers)


def run_on_tokens_alone(alone: Any, blocks: Sequence[BlockLayers], x: Any, mask: Any, shared: Sequence[Any] = ()) -> Any:
    """Run encoder blocks of a model that `runs_on_tokens_alone`, as `run_block` does in a training step.

    Args:
        alone: the context of `kernels.tokens_alone`, which has the mask.
        blocks: the layers of the blocks.
        x: `(batch, length, hidden)`.
        mask: not read.
        shared: empty, since blocks share nothing.

    Returns:
        `(batch, length, hidden)`, with any numbers at padding.
    """
    with alone as tokens:
        x = functools.reduce(lambda x, block: run_block(block, x, Context(training=True)), blocks, tokens.rows(x))
        return tokens.padded(x)
