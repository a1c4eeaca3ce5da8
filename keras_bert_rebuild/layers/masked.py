"""A mask of the positions to predict."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.masks import MaskOutsideGraph


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Masked(MaskOutsideGraph, BertLayer):
    """Passes predictions on and masks all positions except those selected for prediction.

    Args:
        return_masked: also return the resulting mask, as floats of 0 and 1.

    Input shape: a list of predictions `(batch, length, ...)` and positions `(batch, length)`, nonzero where a token is to be
        predicted.
    Output shape: that of the predictions; with `return_masked` a list of it and `(batch, length)`.
    Mask: positions ≠ 0 and the mask of the predictions, if they have one; None while the graph is built (see `Add`).
    """

    def __init__(self, return_masked: bool = False, **kwargs: Any) -> None:
        # Probabilities in float32 must not be cast to bfloat16.
        super().__init__(autocast=False, **kwargs)
        self.keep(return_masked=return_masked)

    def call(self, inputs, mask=None):
        predictions, _ = inputs
        # A new tensor, since the mask is attached to the tensor and the input keeps its own.
        outputs = predictions + ops.zeros((), dtype=predictions.dtype)
        if not self.return_masked:
            return outputs
        return [outputs, ops.cast(self._merge(inputs, mask), self.compute_dtype)]

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        merged = self._merge(inputs, mask)
        return [merged, None] if self.return_masked else merged

    def compute_output_spec(self, inputs, mask=None):
        predictions, positions = inputs
        outputs = keras.KerasTensor(predictions.shape, dtype=predictions.dtype)
        if not self.return_masked:
            return outputs
        return [outputs, keras.KerasTensor(positions.shape, dtype=self.compute_dtype)]

    def get_config(self):
        config = super().get_config()
        config.pop("autocast", None)
        return config

    @staticmethod
    def _merge(inputs, mask):
        predicted = inputs[1] != 0
        prediction_mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return predicted if prediction_mask is None else ops.logical_and(predicted, prediction_mask)
