"""A long text read segment by segment, each with the vectors of the one before as memories."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.models.encoder_blocks import RELATIVE, Context, blocks_of, input_of, run_block
from keras_bert_rebuild.models.named_inputs import ids_of, real_tokens


def run_with_memories(model: keras.Model, inputs: Any, memories: Sequence[Any] | None = None) -> tuple[Any, list[Any]]:
    """Read a segment of a text, whose tokens also attend to those of the segment before.

    A block reads its memory before the sequence: its tokens are keys at the distances that they have, of segment 0, none of them
    padding. Of the inputs of a block the first `reuse_len` follow its memory, of which the last `mem_len` tokens are the next one.
    Gradients do not reach into memories.

    It takes the time of a text with as many tokens as the memories and the segment have together.

    Args:
        model: an XLNet with a config, with any heads or none, which are not run.
        inputs: those of the model, a list of arrays `(batch, length)` in order or a dictionary by name.
        memories: what the call for the segment before returned; None for the first segment.

    Returns:
        The vectors after the last block, `(batch, length, hidden)`, and a memory `(batch, tokens, hidden)` for each block.

    Raises:
        ValueError: the model has no relative attention, or `memories` are not one of this batch for each block.

    Reference: Dai et al., 2019, section 3.2 (https://arxiv.org/abs/1901.02860); Yang et al., 2019, section 2.4
    (https://arxiv.org/abs/1906.08237).
    """
    config = getattr(model, "config", None)
    relative = None if config is None else config.encoder().relative
    if relative is None or relative.kind != "relative":
        raise ValueError(f"memories need a model with relative attention and a config, such as an XLNet; got {model.name}.")
    blocks, layers = blocks_of(model), {layer.name: layer for layer in model.layers}
    ids = ids_of(model, inputs)
    x = keras.Model(model.inputs, input_of(blocks[0]))([*ids.values()], training=False)
    _check(memories, blocks, x)
    past = 0 if memories is None else memories[0].shape[1]
    segments = _after(ops.zeros((x.shape[0], past), "int32"), ids["Input-Segment"])
    width = past + x.shape[1]
    shared = (layers[RELATIVE].vectors(width, width, x.shape[-1]), layers[f"{RELATIVE}-Segment"](segments))
    mask = _after(ops.ones((x.shape[0], past), "bool"), real_tokens(layers, ids))
    context, following = Context(mask=mask, training=False, shared=shared), []
    for number, block in enumerate(blocks):
        memory = x[:, :0] if memories is None else ops.cast(ops.convert_to_tensor(memories[number]), x.dtype)
        reused = _after(memory, x[:, : relative.reused or None])
        following.append(ops.stop_gradient(reused[:, max(0, reused.shape[1] - (relative.memory or reused.shape[1])) :]))
        x = run_block(block, _after(memory, x), context)[:, past:]
    return x, following


def _after(first, second):
    return ops.concatenate([first, second], axis=1)


def _check(memories, blocks, x):
    """Refuse memories that are not one for each block, of the batch and width of the sequence and of one length."""
    if memories is None:
        return
    shapes = [tuple(memory.shape) for memory in memories]
    fitting = len(set(shapes)) == 1 and len(shapes[0]) == 3 and (shapes[0][0], shapes[0][2]) == (x.shape[0], x.shape[2])
    if len(shapes) != len(blocks) or not fitting:
        raise ValueError(
            f"memories must be {len(blocks)} arrays ({x.shape[0]}, tokens, {x.shape[2]}), one for each block; got "
            f"{len(shapes)} of shapes {', '.join(map(str, dict.fromkeys(shapes)))}."
        )
