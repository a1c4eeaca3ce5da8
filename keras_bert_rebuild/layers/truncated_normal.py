"""BERT's initializer, which draws nothing if a checkpoint is about to overwrite its values.

Also initial values that depend only on a seed and the path of the variable, the same on every backend.
"""

import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.layers.seam import executing, seam


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TruncatedNormal(keras.initializers.TruncatedNormal):
    """`keras.initializers.TruncatedNormal` with BERT's standard deviation of 0.02; draws nothing inside `skipped_initialization`.

    Reference: `create_initializer` of google-research/bert.
    """

    def __init__(self, mean: float = 0.0, stddev: float = 0.02, seed: Any = None) -> None:
        super().__init__(mean=mean, stddev=stddev, seed=seed)

    def __call__(self, shape: Sequence[int], dtype: Any = None, **kwargs: Any) -> Any:
        return self.draw(shape, keras.backend.standardize_dtype(dtype), **kwargs)

    @seam
    def draw(self, shape: Sequence[int], dtype: str, **kwargs: Any) -> Any:
        """The values."""
        return super().__call__(shape, dtype=dtype, **kwargs)


def skipped_initialization(values: Callable[[Sequence[int], str], Any]) -> AbstractContextManager[None]:
    """A context in which no `TruncatedNormal` draws numbers: drawing 110 million takes longer than reading them.

    Args:
        values: a function of a shape and the name of a dtype that returns the values to use instead.
    """
    return executing((TruncatedNormal.draw, lambda plain, initializer, shape, dtype, **kwargs: values(shape, dtype)))


def drawn_by_name(variable, seed, draw):
    """Initial values of a variable.

    Args:
        variable: a built Keras variable.
        seed: an integer of at least 0.
        draw: a function of a NumPy generator and a shape that returns an array.

    Returns:
        A float32 array of the shape of the variable.
    """
    generator = np.random.default_rng([seed, zlib.crc32(variable.path.encode())])
    return draw(generator, tuple(variable.shape)).astype("float32")
