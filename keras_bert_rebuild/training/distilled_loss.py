"""A distillation loss: the mean of per-position losses that the model has computed."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.losses import mean_over_labels


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistilledLoss(keras.losses.Loss):
    """The mean of losses over the positions that are not masked out.

    Args:
        name: as for any loss.
        reduction: by default the mean over the positions that count.

    Call arguments:
        y_true: 1 at positions that count, 0 at others, `(batch, length)`.
        y_pred: the loss of every position, `(batch, length)`.

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
        # Other positions may hold NaN or infinity, which 0 times does not make 0.
        values = ops.where(counts > 0, y_pred, ops.zeros_like(y_pred))
        return mean_over_labels(self, super().__call__(y_true, values, counts), values, counts=counts)

    def call(self, y_true, y_pred):
        return ops.convert_to_tensor(y_pred)
