"""Reading a long text segment by segment, with the vectors of the previous segment as memories."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.models.encoder_blocks import RELATIVE, Context, run_block
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.named_tensors import ids_of


def run_with_memories(model: keras.Model, inputs: Any, memories: Sequence[Any] | None = None) -> tuple[Any, list[Any]]:
    """Read a segment of a text, whose tokens also attend to those of the previous segment.

    In every block, the tokens of its memory precede the sequence as keys at their true distances, in segment 0, without padding.
    The next memory of a block is the last `mem_len` tokens of its memory followed by the first `reuse_len` of its inputs. Gradients
    do not flow into memories.

    The computation is that of a text with as many tokens as memories and segment together.

    Args:
        model: an XLNet with a config; heads are not run.
        inputs: the inputs of the model, a list of arrays `(batch, length)` in order or a dictionary by name.
        memories: the memories that the call for the previous segment returned; None for the first segment.

    Returns:
        The vectors after the last block, `(batch, length, hidden)`, and a memory `(batch, tokens, hidden)` for each block.

    Raises:
        ValueError: the model has no relative attention, or there is not a memory of this batch for each block.

    Reference: Dai et al., 2019, section 3.2 (https://arxiv.org/abs/1901.02860); Yang et al., 2019, section 2.4
    (https://arxiv.org/abs/1906.08237).
    """
    config = getattr(model, "config", None)
    relative = None if config is None else config.encoder().relative
    if relative is None or relative.kind != "relative":
        raise ValueError(f"memories need a model with relative attention and a config, such as an XLNet; got {model.name}.")
    view, ids = EncoderView(model), ids_of(model, inputs)
    x, real, *_ = view.embed(ids)
    _check(memories, view.blocks, x)
    past = 0 if memories is None else memories[0].shape[1]
    segments = _after(ops.zeros((x.shape[0], past), "int32"), ids["Input-Segment"])
    width = past + x.shape[1]
    shared = (view.layers[RELATIVE].vectors(width, width, x.shape[-1]), view.layers[f"{RELATIVE}-Segment"](segments))
    mask = _after(ops.ones((x.shape[0], past), "bool"), real)
    context, following = Context(mask=mask, training=False, shared=shared), []
    for number, block in enumerate(view.blocks):
        memory = x[:, :0] if memories is None else ops.cast(ops.convert_to_tensor(memories[number]), x.dtype)
        reused = _after(memory, x[:, : relative.reused or None])
        following.append(ops.stop_gradient(reused[:, max(0, reused.shape[1] - (relative.memory or reused.shape[1])) :]))
        x = run_block(block, _after(memory, x), context)[:, past:]
    return x, following


def _after(first, second):
    return ops.concatenate([first, second], axis=1)


def _check(memories, blocks, x):
    """Refuse memories unless there is one for each block, all of the same length, with batch and width of the sequence."""
    if memories is None:
        return
    shapes = [tuple(memory.shape) for memory in memories]
    fitting = len(set(shapes)) == 1 and len(shapes[0]) == 3 and (shapes[0][0], shapes[0][2]) == (x.shape[0], x.shape[2])
    if len(shapes) != len(blocks) or not fitting:
        raise ValueError(
            f"memories must be {len(blocks)} arrays ({x.shape[0]}, tokens, {x.shape[2]}), one for each block; got "
            f"{len(shapes)} of shapes {', '.join(map(str, dict.fromkeys(shapes)))}."
        )
