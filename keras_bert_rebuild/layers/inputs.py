"""The inputs of the graph."""

from typing import Any

import keras


def get_inputs(seq_len: int | None) -> list[Any]:
    """The three inputs of the pretraining graph: token ids, segment ids and the positions to predict.

    Args:
        seq_len: static length, or None for any length.

    Returns:
        `[Input-Token, Input-Segment, Input-Masked]`, int32 of shape `(batch, seq_len)`. keras_bert's were float32; arrays of
        floats that hold whole numbers are still accepted, and half precision cannot corrupt an id.
    """
    return [keras.Input((seq_len,), dtype="int32", name=f"Input-{name}") for name in ("Token", "Segment", "Masked")]
