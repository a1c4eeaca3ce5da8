"""A training step through the graph up to the last layers of the heads, whose encoder blocks run in another way than in it."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_bert_rebuild.anatomy.heads import FIRST_TOKEN, LAST, MEAN, POOLED
from keras_bert_rebuild.models.encoder import FINAL_NORM
from keras_bert_rebuild.models.encoder_blocks import blocks_of
from keras_bert_rebuild.models.heads import before_logits


def run_in_parts(
    model: keras.Model,
    embedding: keras.Model,
    inputs: Any,
    mask: Any,
    heads: Sequence[str],
    run_blocks: Callable[..., Any],
) -> tuple[Any, ...]:
    """Run the graph up to the last layers of the heads in a training step.

    Args:
        model: a model with a config, from `build_model`.
        embedding: the part of its graph up to the first block, with the sequence, the token table and the shared inputs of blocks
            as outputs.
        inputs: the inputs of the model.
        mask: `(batch, length)`, False at padding.
        heads: names of the outputs besides the MLM head.
        run_blocks: a function of the `BlockLayers` of all blocks, the sequence `(batch, length, hidden)`, the mask and the list of
            shared inputs, which returns the last block's output.

    Returns:
        The last block's output, the token table, and for each head the input of its last layer.
    """
    x, table, *shared = embedding(inputs, training=True)
    layers = {layer.name: layer for layer in model.layers}
    x = run_blocks(blocks_of(model), x, mask, shared)
    if FINAL_NORM in layers:
        x = layers[FINAL_NORM](x)
    answers, reads = [], before_logits(model.config.encoder())
    for head in heads:
        y = x
        for name in reads.get(head, ()):
            settings = {"mask": mask} if name in (MEAN, LAST, FIRST_TOKEN, POOLED[0]) else {"training": True}
            y = layers[name](y, **settings) if name in layers else y
        answers.append(y)
    return x, table, *answers
