"""A dataset of Keras that knows which epoch it is in."""

from typing import Any

import keras


class EpochBatches(keras.utils.PyDataset):
    """Batches that are a function of epoch and index, `batch(epoch, index)`, handed to Keras epoch after epoch.

    The models of this package ask for the batches of an epoch in their order, unless `fit` is told `shuffle=True`, and make them
    ahead. `fit` of another `keras.Model` must be told `shuffle=False` and makes none ahead: Keras's own threads lose and repeat
    batches on JAX and torch, and are told of no workers. Neither may be told `steps_per_epoch`.

    Args:
        start_epoch: number of the first epoch.
        repeat: whether every epoch has the batches of the first, as an evaluation wants it.
        workers: threads that make batches while a model trains, `max(2, workers)` ahead at the most; 0 makes them in between.
    """

    def __init__(self, start_epoch: int = 0, repeat: bool = False, workers: int = 0) -> None:
        super().__init__(workers=0, max_queue_size=max(2, workers))
        self.epoch = start_epoch
        self.repeat = repeat
        self.made_ahead_by = workers  # tells a model of this package also that the order is not to be changed
        self._asked: set[int] | None = None

    def batch(self, epoch: int, index: int) -> tuple[Any, ...]:
        """Batch `index` of an epoch, whatever was asked for before."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if self._asked is not None:
            self._asked.add(index)
        return self.batch(self.epoch, index)

    def on_epoch_begin(self) -> None:
        self._asked = set()

    def on_epoch_end(self) -> None:
        # Keras ends epochs that never began, and takes one batch of an epoch and ends it to build a model.
        if self._asked is not None and len(self._asked) >= len(self) and not self.repeat:
            self.epoch += 1
        self._asked = None
