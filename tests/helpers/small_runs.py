"""Short pretraining runs that have everything a run has: held-out text, averaged weights, accumulated gradients, a curve."""

import keras

from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

SETTINGS = {
    "batch_size": 4,
    "seq_len": 16,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-2,
    "ema": 0.9,
    "held_out": 0.2,
    "evaluation_steps": 2,
    "log_steps": 2,
    "workers": 0,
    "tensorboard": False,
    # XLA takes longer to compile such a step than TensorFlow to run it.
    "jit_compile": keras.config.backend() == "jax",
}


def whole_run(corpus, folder, settings):
    """An uninterrupted run: its folder, the rows of its curve and its model."""
    rows = []
    return folder, rows, pretrain(corpus, folder, settings, report=rows.append)
