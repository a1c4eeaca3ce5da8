"""A loss over groups for a model whose output has a row per text."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.score_loss import ScoreLoss


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class GroupedLoss(keras.losses.Loss):
    """A `ScoreLoss` on rows of texts, where the query and the texts of a group are consecutive rows.

    Args:
        loss: the loss over groups.
        texts: rows per group: a query, its positive and its negatives.
        name, reduction: as for any loss.

    Call arguments:
        y_true: `(groups · texts, columns)`, as for `training.retrieval_losses`.
        y_pred: `(groups · texts, ..., width)`.
    """

    def __init__(
        self, loss: ScoreLoss, texts: int, name: str = "grouped_loss", reduction: str | None = "sum_over_batch_size", **kwargs: Any
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.loss, self.texts = loss, int(texts)

    def call(self, y_true, y_pred):
        losses = self.loss.call(self._grouped(y_true), self._grouped(y_pred))
        return ops.repeat(losses, self.texts)

    def _grouped(self, rows):
        return ops.reshape(rows, (-1, self.texts, *ops.shape(rows)[1:]))

    def get_config(self):
        return {**super().get_config(), "loss": keras.losses.serialize(self.loss), "texts": self.texts}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "loss": keras.losses.deserialize(config["loss"])})
