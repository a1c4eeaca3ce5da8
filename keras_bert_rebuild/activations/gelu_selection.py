"""keras_bert's import path of the gelu that its models use: the tanh form on every backend, as in keras_bert 0.89."""

from keras_bert_rebuild.layers.activations import gelu

__all__ = ["gelu"]
