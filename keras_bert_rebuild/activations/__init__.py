"""keras_bert's import path of its activation."""

from keras_bert_rebuild.activations.gelu_selection import gelu

__all__ = ["gelu"]
