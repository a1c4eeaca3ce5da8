"""A model of one layer, and training data."""

import keras
import numpy as np


def tiny_model(optimizer="sgd", loss="mse", **kwargs):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="dense")], name="tiny")
    model.compile(optimizer, loss, **kwargs)
    return model


def batches(steps, spoiled=()):
    """Arrays of `steps` batches of 4; batches whose number, counted from 1, is in `spoiled` have a NaN input."""
    x = np.ones((steps * 4, 2), "float32")
    for step in spoiled:
        x[step * 4 - 4] = np.nan
    return x, np.zeros((steps * 4, 1), "float32")


def fit(model, steps, callbacks, spoiled=(), **kwargs):
    x, y = batches(steps, spoiled)
    return model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=callbacks, **kwargs)


class At(keras.callbacks.Callback):
    """Do something at the end of a batch, numbered from 1."""

    def __init__(self, batch, action):
        super().__init__()
        self.batch, self.action = batch, action

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.batch:
            self.action(self)


def stop(callback):
    callback.model.stop_training = True
