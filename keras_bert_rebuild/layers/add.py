"""`Add` that keeps the padding mask."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Add(keras.layers.Add):
    """Sum of tensors whose mask is the conjunction of the masks that exist.

    `keras.layers.Add` drops the mask as soon as one input has none, and token plus segment embedding is such a sum: the padding
    would silently be attended to.

    Input shape: a list of tensors of one shape.
    Output shape: that shape.
    Mask: the logical and of the masks that are not None; None while the graph is built, so that it adds no row to the summary.
    """

    def compute_mask(self, inputs, mask=None):
        masks = [m for m in (mask or []) if m is not None]
        if not masks or isinstance(masks[0], keras.KerasTensor):
            return None
        combined = masks[0]
        for other in masks[1:]:
            combined = ops.logical_and(combined, other)
        return combined
