"""The loss of a pretraining head, and what all losses that are means over labels, not over rows, have in common."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.models.label_means import note_mean


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PretrainingLoss(keras.losses.Loss):
    """Cross entropy of the right token or class, from logits, in float32.

        loss = log Σ_v exp(logits[v]) − logits[label]

    `PretrainingModel` asks a compiled loss for its attributes `takes_logits`, `max_predictions` and `chunk` and does as they say
    (`models/loss_protocols.py`).
    No other model does: its heads answer with probabilities, and the loss is to be told so.

    Args:
        max_predictions: for the MLM head, how many positions of an example are projected onto the vocabulary; None for all.
        chunk: for the MLM head, how many positions of the batch are projected onto the vocabulary at once, and again in the
            backward pass; None for all. The loss is then given log-probabilities, and is −logits[label].
        reduction: by default the mean over the labelled positions.
        from_logits: False takes probabilities, of which the least that counts is 1e-37: the loss is −log p[label].

    Call arguments:
        y_true: labels, `(batch, length)` for tokens and `(batch,)` for classes, or the same with a last axis of 1.
        y_pred: logits, `(batch, length, vocabulary)` or `(batch, classes)`; with `chunk` log-probabilities; or probabilities.

    Raises:
        ValueError: `max_predictions` or `chunk` is less than 1, or given beside `from_logits=False`.

    Example:

    >>> import numpy as np
    >>> round(float(PretrainingLoss()(np.array([1]), np.array([[40.0, 0.0]]))), 6)
    40.0

    Reference: Devlin et al., 2019, section 3.1 and appendix A.2; `max_predictions_per_seq` of google-research/bert.
    """

    def __init__(
        self,
        max_predictions: int | None = None,
        name: str = "pretraining_loss",
        reduction: str | None = "sum_over_batch_size",
        *,
        chunk: int | None = None,
        from_logits: bool = True,
        **kwargs: Any,
    ) -> None:
        if max_predictions is not None and max_predictions < 1:
            raise ValueError(f"max_predictions must be at least 1, or None for all positions; got {max_predictions}.")
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk must be at least 1 position, or None for all at once; got {chunk}.")
        if not from_logits and (max_predictions, chunk) != (None, None):
            raise ValueError(f"max_predictions and chunk are for a loss from logits; got {max_predictions} and {chunk}.")
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.takes_logits = self.from_logits = from_logits
        self.max_predictions = max_predictions
        self.chunk = chunk

    def __call__(self, y_true, y_pred, sample_weight=None):
        return mean_over_labels(self, super().__call__(y_true, y_pred, sample_weight), y_pred, sample_weight)

    def call(self, y_true, y_pred):
        labels = ops.cast(y_true, "int32")
        if len(labels.shape) == len(y_pred.shape):
            labels = labels[..., 0]  # (B, L, 1) → (B, L)
        # What stands where no label is may be anything, -100 for one: it is weighted with 0 and must only be finite.
        labels = ops.clip(labels, 0, y_pred.shape[-1] - 1)
        if self.chunk is not None or not self.from_logits:
            right = ops.take_along_axis(y_pred, labels[..., None], axis=-1)[..., 0]
            return -right if self.from_logits else -ops.log(ops.maximum(ops.cast(right, "float32"), 1e-37))
        return ops.sparse_categorical_crossentropy(labels, y_pred, from_logits=True)

    def get_config(self):
        return {
            **super().get_config(),
            "max_predictions": self.max_predictions,
            "chunk": self.chunk,
            "from_logits": self.from_logits,
        }


class _Ones(keras.losses.Loss):
    """A loss of 1 everywhere: what Keras makes of it is the mask, which on JAX no attribute of a tensor tells."""

    def call(self, y_true, y_pred):
        return ops.ones(ops.shape(y_pred)[:-1], self.dtype)


_ONES = _Ones(reduction=None)


def counted(y_pred: Any, sample_weight: Any = None) -> Any:
    """What Keras weighs the losses of predictions `(batch, ..., classes)` with, 0 where they are masked, `(batch, ...)`."""
    return _ONES(y_pred, y_pred, sample_weight)


def mean_over_labels(loss: keras.losses.Loss, value: Any, y_pred: Any, sample_weight: Any = None, counts: Any = None) -> Any:
    """Tell the model what the value of a loss is the mean of; on a replica, make it the part of the mean over the labels of all.

    Args:
        loss: the loss.
        value: what Keras made of it.
        y_pred, sample_weight: what Keras made it of.
        counts: what every label counts, `(batch, ...)`; None for 1, and 0 where there is a mask.

    Returns:
        The value to train with. On one device, and where the loss is no mean, it stays as it is.
    """
    if loss.reduction in (None, "none", "sum"):
        return value
    if loss.reduction == "mean_with_sample_weight" and sample_weight is not None:
        counts = counted(y_pred, sample_weight)
    elif counts is None:
        counts = counted(y_pred)
    value, mean, count = kernels.mean_over_replicas(value, ops.sum(counts))
    note_mean(loss, mean, count)
    return value
