"""The inputs of the pretraining graph."""

from typing import Any

import keras


def get_inputs(seq_len: int | None) -> list[Any]:
    """Token ids, segment ids and the positions to predict.

    Args:
        seq_len: static length, or None for any length.

    Returns:
        `[Input-Token, Input-Segment, Input-Masked]`, int32 of shape `(batch, seq_len)`. In keras_bert they were float32; float
        arrays of integers are still accepted. Half precision cannot corrupt int32 ids.
    """
    return [keras.Input((seq_len,), dtype="int32", name=f"Input-{name}") for name in ("Token", "Segment", "Masked")]
