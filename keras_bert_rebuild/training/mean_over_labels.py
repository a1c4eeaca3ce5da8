"""What the losses that are means over labels, not over rows, have in common."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.models.label_means import note_mean


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
