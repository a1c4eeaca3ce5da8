"""keras_bert's import path of the tanh form."""

from keras_bert_rebuild.layers.activations import gelu

__all__ = ["gelu"]
