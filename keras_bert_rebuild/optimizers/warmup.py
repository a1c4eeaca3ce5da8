"""keras_bert's import path of `AdamWarmup` in releases before 0.85."""

from keras_bert_rebuild.training.optimizers.adam_warmup import AdamWarmup

__all__ = ["AdamWarmup"]
