"""Keras's layers with what BERT needs in addition: masks, logits, epsilon, gradients, kernels."""

import functools
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.layers.masks import MaskOutsideGraph, both_masks, has_sequences
from keras_bert_rebuild.layers.products import product
from keras_bert_rebuild.layers.seam import executing, seam


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Add(MaskOutsideGraph, keras.layers.Add):
    """Sum of tensors; the mask is the conjunction of the masks that exist.

    `keras.layers.Add` drops the mask as soon as one input has none. The sum of token and segment embedding is such a case: padding
    would silently be attended to.

    Input shape: a list of tensors of the same shape.
    Output shape: that shape.
    Mask: the logical and of the masks that are not None, with sequence numbers if one mask has them; None while the graph is
        built, so that it adds no row to the summary.
    """

    @seam
    def call(self, inputs):
        return super().call(inputs)

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        masks = [m for m in (mask or []) if m is not None]
        return functools.reduce(both_masks, masks) if masks else None


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` with an activation in float32, which can return its logits.

        outputs = activation(logits)        logits = inputs · kernel + bias

    A loss computed from probabilities saturates when a probability rounds to zero, and in bfloat16 has only three digits. So the
    train step uses the logits, while `predict` returns probabilities.

    Args:
        units: number of outputs.
        activation: applied to the logits, in float32.
        **kwargs: see `keras.layers.Dense`.

    Call arguments:
        inputs: `(..., hidden)`.
        return_logits: return the logits instead of the activations.

    Input shape: `(..., hidden)`.
    Output shape: `(..., units)`, float32.
    Mask: passed on, without sequence numbers, which Keras would use as weights of the labels.
    """

    def __init__(self, units: int, activation: Any = "softmax", **kwargs: Any) -> None:
        super().__init__(units, activation=None, **kwargs)
        self.output_activation = keras.activations.get(activation)

    def call(self, inputs, training=None, return_logits=False):
        return self._finish(product(self, inputs, super().call), return_logits)

    def quantized_call(self, inputs, training=None, return_logits=False):
        return self._finish(super().quantized_call(inputs), return_logits)

    def compute_mask(self, inputs, mask=None):
        return ops.not_equal(mask, 0) if has_sequences(mask) else mask

    def _finish(self, outputs, return_logits):
        logits = ops.cast(outputs, "float32")
        return logits if return_logits else self.output_activation(logits)

    def compute_output_spec(self, inputs, training=None, return_logits=False):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype="float32")

    def quantize(self, mode=None, type_check=True, config=None):
        # Keras refuses subclasses of Dense because they may read the kernel directly; this one does not.
        super().quantize(mode, type_check=type_check and type(self) is not Dense, config=config)

    def get_config(self):
        return {**super().get_config(), "activation": keras.activations.serialize(self.output_activation)}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`, for which TensorFlow and JAX have kernels with cheaper random bits.

        outputs = inputs / (1 - rate) at retained values, else 0

    On TensorFlow the rate is rounded to a multiple of 1/65,536, and every replica of a `MirroredStrategy` has its own mask; with
    Keras's layer all have the same. On JAX the mask does not depend on how many devices share the batch.

    Args:
        rate: fraction of the values that are dropped in training, in [0, 1).
        **kwargs: see `keras.layers.Dropout`.

    Input shape: any.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Srivastava et al., 2014 (https://jmlr.org/papers/v15/srivastava14a.html).
    """

    def call(self, inputs, training=False):
        return self.drop(inputs) if training and self.rate > 0 else inputs

    @seam
    def drop(self, inputs: Any) -> Any:
        """The inputs with dropout."""
        return super().call(inputs, training=True)


def look_up(table, ids):
    """`table[ids]` with a dense gradient for the table.

    On TensorFlow the gradient of a look-up in a variable is a list of rows (`tf.IndexedSlices`), with duplicates for repeated ids.
    Keras's optimizers square these rows, and take their norms, before summing duplicates, which is wrong. The gradient of a reshape
    is dense, and the reshape itself costs nothing.

    Args:
        table: `(rows, width)`, a variable or a tensor.
        ids: integers of any shape.

    Returns:
        `(..., width)`.
    """
    return ops.take(ops.reshape(table, table.shape), ids, axis=0)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding` with a dense gradient for its table, so that every Keras optimizer updates it correctly.

    Arguments, shapes and mask are those of `keras.layers.Embedding`.
    """

    def call(self, inputs):
        return ops.cast(look_up(self.embeddings, ops.cast(inputs, "int32")), self.compute_dtype)

    def quantize(self, mode, type_check=True, config=None):
        # Keras refuses subclasses of Embedding because they may read the table directly; this one does not.
        super().quantize(mode, type_check=type_check and type(self) is not Embedding, config=config)


EPSILON = 1e-12


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis with an epsilon of 1e-12 instead of Keras's 1e-3.

        outputs = gamma · (inputs − mean) / √(variance + epsilon) + beta

    Keras computes the moments in float32 whatever the dtype, so 1e-12 is safe in half precision.

    Args:
        epsilon: added to the variance; None means the default.
        **kwargs: see `keras.layers.LayerNormalization`.

    Input shape: `(..., hidden)`.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Ba et al., 2016, section 3 (https://arxiv.org/abs/1607.06450); 1e-12 is `layer_norm` of google-research/bert.
    """

    def __init__(self, epsilon: float | None = EPSILON, **kwargs: Any) -> None:
        super().__init__(epsilon=EPSILON if epsilon is None else epsilon, **kwargs)

    @seam
    def call(self, inputs, training=None):
        return super().call(inputs)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class RMSNormalization(keras.layers.RMSNormalization):
    """`keras.layers.RMSNormalization` over the last axis that passes on the mask, which Keras's layer drops.

        outputs = scale · inputs / √(mean(inputs²) + epsilon)

    Args:
        **kwargs: see `keras.layers.RMSNormalization`.

    Input shape: `(..., hidden)`.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Zhang and Sennrich, 2019, section 4 (https://arxiv.org/abs/1910.07467).
    """

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    @seam
    def call(self, inputs):
        return super().call(inputs)


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
