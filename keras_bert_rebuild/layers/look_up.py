"""Look-ups in tables, whose gradients are arrays on every backend."""

import keras
from keras import ops


def look_up(table, ids):
    """`table[ids]`, with an array as the gradient of the table.

    On TensorFlow the gradient of a look-up in a variable is a list of rows (`tf.IndexedSlices`), the same one several times if it
    was looked up several times. Keras's optimizers square these parts, and take their norms, where the square of the sum is
    meant. The gradient of a reshape is an array, and the reshape itself costs nothing.

    Args:
        table: `(rows, width)`, a variable or a tensor.
        ids: whole numbers of any shape.

    Returns:
        `(..., width)`.
    """
    return ops.take(ops.reshape(table, table.shape), ids, axis=0)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding` with an array as the gradient of its table, so that every Keras optimizer updates it correctly.

    Arguments, shapes and mask are those of `keras.layers.Embedding`.
    """

    def call(self, inputs):
        return ops.cast(look_up(self.embeddings, ops.cast(inputs, "int32")), self.compute_dtype)

    def quantize(self, mode, type_check=True, config=None):
        # Keras refuses subclasses of Embedding because they may read the table raw; this one does not.
        super().quantize(mode, type_check=type_check and type(self) is not Embedding, config=config)
