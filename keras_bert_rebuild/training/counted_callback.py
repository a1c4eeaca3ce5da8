"""A Keras callback that knows how many batches were trained, whatever was before it."""

import math

import keras


class CountedCallback(keras.callbacks.Callback):
    """Counts the batches that a model was trained on, over epochs, calls of `fit` and restarts.

    Args:
        initial_step: batches trained before, by the processes before this one.
    """

    def __init__(self, initial_step: int = 0) -> None:
        super().__init__()
        self.step = initial_step
        self.trained = None

    def set_model(self, model):
        super().set_model(model)
        # `self.model` fetches the whole state from the JAX trainer, every time.
        self.trained = model

    def on_train_batch_begin(self, batch, logs=None):
        self._begin = batch

    def count(self, batch: int) -> range:
        """Take note of the batches of an execution, of which Keras tells the number of the last.

        Returns:
            The steps, as a range: the batch trained first has number 1. One step, or `steps_per_execution`.
        """
        planned = (self.params or {}).get("steps")
        if planned is not None:  # Keras gives the last execution of an epoch its full length, however few batches were left
            batch = min(batch, planned - 1)
        before, self.step = self.step, self.step + batch - self._begin + 1
        return range(before + 1, self.step + 1)


def is_finite(logs):
    """Whether the loss in the logs is a number.

    Keras reports the mean over the epoch so far, which stays non-finite once one of its batches was: the first time that this is
    False tells the batch.
    """
    return math.isfinite((logs or {}).get("loss", 0.0))
