"""keras_bert's import path of the form with the error function, which older releases used on TensorFlow."""

from keras_bert_rebuild.layers.activations import gelu_erf as gelu

__all__ = ["gelu"]
