"""A Keras dataset that knows which epoch it is in."""

from typing import Any

import keras


class EpochBatches(keras.utils.PyDataset):
    """Batches that are a function of epoch and index, `batch(epoch, index)`, passed to Keras epoch after epoch.

    The models of this package read the batches of an epoch in order, unless `fit` gets `shuffle=True`, and prepare them ahead.
    Any other `keras.Model` needs `fit(shuffle=False)` and prepares none ahead: Keras's own threads lose and repeat batches on JAX
    and torch, so Keras sees no workers here. Do not pass `steps_per_epoch` to either.

    Args:
        start_epoch: number of the first epoch.
        repeat: whether every epoch has the batches of the first, as an evaluation needs.
        workers: threads that make batches while a model trains, at most `max(2, workers)` ahead; 0 makes them between the steps.
    """

    def __init__(self, start_epoch: int = 0, repeat: bool = False, workers: int = 0) -> None:
        super().__init__(workers=0, max_queue_size=max(2, workers))
        self.epoch = start_epoch
        self.repeat = repeat
        self.made_ahead_by = workers  # also tells a model of this package not to change the order
        self._requested: set[int] | None = None

    def batch(self, epoch: int, index: int) -> tuple[Any, ...]:
        """Batch `index` of an epoch, regardless of earlier calls."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if self._requested is not None:
            self._requested.add(index)
        return self.batch(self.epoch, index)

    def on_epoch_begin(self) -> None:
        self._requested = set()

    def on_epoch_end(self) -> None:
        # Keras ends epochs that never began, and takes one batch of an epoch and ends it to build a model.
        if self._requested is not None and len(self._requested) >= len(self) and not self.repeat:
            self.epoch += 1
        self._requested = None
