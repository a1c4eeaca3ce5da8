"""BERT's initializer, which costs nothing where a checkpoint is about to overwrite its values."""

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import keras

_SKIPPED = threading.local()


@contextlib.contextmanager
def skipped_initialization(values):
    """Let no `TruncatedNormal` of this thread draw numbers: drawing 110 million takes longer than reading them.

    Args:
        values: returns what to use instead, given a shape and the name of a dtype.
    """
    before = getattr(_SKIPPED, "values", None)
    _SKIPPED.values = values
    try:
        yield
    finally:
        _SKIPPED.values = before


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TruncatedNormal(keras.initializers.TruncatedNormal):
    """`keras.initializers.TruncatedNormal` with BERT's deviation of 0.02, and no values inside `skipped_initialization`.

    Reference: `create_initializer` of google-research/bert.
    """

    def __init__(self, mean: float = 0.0, stddev: float = 0.02, seed: Any = None) -> None:
        super().__init__(mean=mean, stddev=stddev, seed=seed)

    def __call__(self, shape: Sequence[int], dtype: Any = None, **kwargs: Any) -> Any:
        values = getattr(_SKIPPED, "values", None)
        if values:
            return values(shape, keras.backend.standardize_dtype(dtype))
        return super().__call__(shape, dtype=dtype, **kwargs)
