"""keras_bert's import path of the optimizer."""

from keras_bert_rebuild.optimizers.util import calc_train_steps
from keras_bert_rebuild.optimizers.warmup_v2 import AdamWarmup

__all__ = ["AdamWarmup", "calc_train_steps"]
