"""A Keras callback that counts trained batches, also across restarts."""

import math

import keras


class CountedCallback(keras.callbacks.Callback):
    """Counts the batches that a model was trained on, across epochs, calls of `fit` and restarts.

    Args:
        initial_step: number of batches trained before, by earlier processes.
    """

    def __init__(self, initial_step: int = 0) -> None:
        super().__init__()
        self.step = initial_step
        self.trained = None

    def set_model(self, model):
        super().set_model(model)
        # `self.model` fetches the whole state from the JAX trainer on every access.
        self.trained = model

    def on_train_batch_begin(self, batch, logs=None):
        self._begin = batch

    def count(self, batch: int) -> range:
        """Count the batches of an execution, of which Keras passes the index of the last.

        Returns:
            The steps, as a range: the first trained batch is step 1. One step, or `steps_per_execution`.
        """
        planned = (self.params or {}).get("steps")
        if planned is not None:  # Keras counts the last execution of an epoch in full, even if it had fewer batches
            batch = min(batch, planned - 1)
        before, self.step = self.step, self.step + batch - self._begin + 1
        return range(before + 1, self.step + 1)


def is_finite(logs):
    """Whether the loss in the logs is finite.

    Keras reports the mean over the epoch so far, which stays non-finite after one batch: the first False identifies the batch.
    """
    return math.isfinite((logs or {}).get("loss", 0.0))
