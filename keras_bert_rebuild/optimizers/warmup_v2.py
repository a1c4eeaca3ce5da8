"""keras_bert's import path of `AdamWarmup`."""

from keras_bert_rebuild.training.optimizer import AdamWarmup

__all__ = ["AdamWarmup"]
