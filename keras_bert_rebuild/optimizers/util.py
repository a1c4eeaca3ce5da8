"""keras_bert's import path of `calc_train_steps`."""

from keras_bert_rebuild.training.optimizers.warmup_linear_decay import calc_train_steps

__all__ = ["calc_train_steps"]
