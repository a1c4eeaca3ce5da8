"""keras_bert's import path of `AdamWarmup`."""

from keras_bert_rebuild.training.optimizers.adam_warmup import AdamWarmup

__all__ = ["AdamWarmup"]
