"""The loss of what a student imitates of its teacher: a mean of the losses that the model has computed."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.losses import mean_over_labels


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistilledLoss(keras.losses.Loss):
    """The mean of losses over the positions that count.

    Args:
        name: as for any loss.
        reduction: by default the mean over the positions that count.

    Call arguments:
        y_true: 1 at a position that counts, else 0, `(batch, length)`.
        y_pred: the losses of the positions, `(batch, length)`.

    Example:

    >>> import numpy as np
    >>> float(DistilledLoss()(np.array([[1.0, 1.0, 0.0]]), np.array([[2.0, 3.0, 9.0]])))
    2.5
    """

    def __init__(self, name: str = "distilled_loss", reduction: str | None = "mean_with_sample_weight", **kwargs: Any) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)

    def __call__(self, y_true, y_pred, sample_weight=None):
        counts = ops.cast(y_true, self.dtype)
        if sample_weight is not None:
            given = ops.cast(sample_weight, self.dtype)
            counts = counts * ops.reshape(given, (*ops.shape(given)[:1], -1))  # (batch,) or (batch, length)
        # What does not count may be anything, and 0 times that is not always 0.
        values = ops.where(counts > 0, y_pred, ops.zeros_like(y_pred))
        return mean_over_labels(self, super().__call__(y_true, values, counts), values, counts=counts)

    def call(self, y_true, y_pred):
        return ops.convert_to_tensor(y_pred)
