"""Normalisation by the root mean square, which passes the padding mask on."""

import keras


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class RMSNormalization(keras.layers.RMSNormalization):
    """`keras.layers.RMSNormalization` over the last axis that passes the mask on; Keras's own drops it.

        outputs = scale · inputs / √(mean(inputs²) + epsilon)

    Args:
        **kwargs: those of `keras.layers.RMSNormalization`.

    Input shape: `(..., hidden)`.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Zhang and Sennrich, 2019, section 4 (https://arxiv.org/abs/1910.07467).
    """

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
