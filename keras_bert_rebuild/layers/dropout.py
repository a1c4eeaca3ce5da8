"""`Dropout` with a kernel of its own on TensorFlow."""

import keras

from keras_bert_rebuild import kernels


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`, which on TensorFlow draws 16 random bits for a number and passes over memory once.

        outputs = inputs / (1 - rate) where a number is kept, else 0

    There the rate is rounded to a 65,536th, and each replica of a `MirroredStrategy` drops different numbers; in Keras's layer
    all of them drop the same.

    Args:
        rate: the part of the numbers that is dropped in training, in [0, 1).
        **kwargs: those of `keras.layers.Dropout`.

    Input shape: any.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Srivastava et al., 2014 (https://jmlr.org/papers/v15/srivastava14a.html).
    """

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        return kernels.dropout(inputs, self.rate, self.seed_generator, self.noise_shape)
