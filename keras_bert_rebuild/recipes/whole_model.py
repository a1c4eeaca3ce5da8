"""A model with all weights in one process, from one that is spread over hosts."""

import keras

from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.training.hosts import host_count, host_index, whole_array


def whole_model(model):
    """A model that one process can save; all hosts must call this at the same point.

    Args:
        model: as from `build_model`.

    Returns:
        The model itself on a single host; else, on host 0, a copy on its first device, and None on the others.
    """
    if host_count() == 1:
        return model
    arrays = [whole_array(weight.value) for weight in model.weights]
    if host_index() > 0:
        return None
    outer = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        copy = build_model(model.config, heads_of(model))
        for weight, array in zip(copy.weights, arrays, strict=True):
            weight.assign(array)
    finally:
        keras.distribution.set_distribution(outer)
    return copy
