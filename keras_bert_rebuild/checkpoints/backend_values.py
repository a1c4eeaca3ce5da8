"""Values of variables that are loaded, without a second copy of the model in memory.

A backend writes zeros into a new variable and copies an array that is assigned to it, so that BERT-base would take one and a half
times its size to load. Where a backend offers a way around that, it stands in a file that names the backend.
"""

import keras
from keras import ops


def unwritten(shape, dtype):
    """A tensor of any values for a variable that is about to be filled; it takes no room until then.

    Args:
        shape: of the tensor.
        dtype: of its numbers, as Keras spells it.
    """
    if keras.config.backend() == "tensorflow":
        from keras_bert_rebuild.checkpoints.tensorflow_values import tensorflow_unwritten

        return tensorflow_unwritten(shape, dtype)
    if keras.config.backend() == "jax":
        from keras_bert_rebuild.checkpoints.jax_values import jax_unwritten

        return jax_unwritten(shape, dtype)
    return ops.empty(shape, dtype)


def handed_over(array):
    """What to assign to a variable for an array that nobody else will write: itself where the backend copies it anyway."""
    if keras.config.backend() == "jax":
        from keras_bert_rebuild.checkpoints.jax_values import jax_handed_over

        return jax_handed_over(array)
    return array
