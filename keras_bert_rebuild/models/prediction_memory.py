"""What a prediction answers with must fit into memory."""

import math
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.models.memory import available_bytes


def check_prediction_fits(outputs: Any, x: Any, batch_size: int | None = None, steps: int | None = None) -> None:
    """Refuse a prediction that would fill the memory, before it starts.

    Args:
        outputs: the outputs of the model, symbolic tensors.
        x: the inputs, arrays in any structure.
        batch_size, steps: as of `predict`.

    Raises:
        MemoryError: it says how much there would be, and how much room there is.
    """
    arrays = [value for value in keras.tree.flatten(x) if hasattr(value, "shape")]
    if not arrays or not arrays[0].shape:
        return
    examples = arrays[0].shape[0]
    if steps is not None:
        examples = min(examples, steps * (batch_size or 32))
    length = max((array.shape[1] for array in arrays if len(array.shape) > 1), default=1)
    shapes = [(examples, *(length if n is None else n for n in output.shape[1:])) for output in outputs]
    needed = sum(math.prod(shape) * _item_size(output) for shape, output in zip(shapes, outputs, strict=True))
    available = available_bytes()
    if available is not None and needed > available:
        shown = " and ".join(str(shape) for shape in shapes)
        raise MemoryError(
            f"predict would answer with arrays of shape {shown}, {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB of memory "
            "are free: predict fewer examples at a time, or only the outputs you need."
        )


def _item_size(tensor):
    name = keras.backend.standardize_dtype(tensor.dtype)
    return {"bfloat16": 2}.get(name) or np.dtype(name).itemsize
