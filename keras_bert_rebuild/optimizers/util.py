"""keras_bert's import path of `calc_train_steps`."""

from keras_bert_rebuild.training.optimizers.rate_schedules import calc_train_steps

__all__ = ["calc_train_steps"]
