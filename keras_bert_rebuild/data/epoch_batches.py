"""A dataset of Keras that knows which epoch it is in."""

from typing import Any

import keras


class EpochBatches(keras.utils.PyDataset):
    """Batches that are a function of epoch and index, `batch(epoch, index)`, handed to Keras epoch after epoch.

    `fit` changes the order of the batches of an epoch unless it is told `shuffle=False`, and must not be told `steps_per_epoch`.

    Args:
        start_epoch: number of the first epoch.
        repeat: whether every epoch has the batches of the first, as an evaluation wants it.
        workers: threads that make batches while a model trains; 0 makes them in between.
        **kwargs: for `keras.utils.PyDataset`. With `use_multiprocessing` the epoch stays the first: other processes are asked.
    """

    def __init__(self, start_epoch: int = 0, repeat: bool = False, workers: int = 0, **kwargs: Any) -> None:
        super().__init__(workers=workers, **kwargs)
        self.epoch = start_epoch
        self.repeat = repeat
        self._asked: int | None = None

    def batch(self, epoch: int, index: int) -> tuple[Any, ...]:
        """Batch `index` of an epoch, whatever was asked for before."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if self._asked is not None:
            self._asked += 1
        return self.batch(self.epoch, index)

    def on_epoch_begin(self) -> None:
        self._asked = 0

    def on_epoch_end(self) -> None:
        # Keras ends epochs that never began, and takes one batch of an epoch and ends it to build a model.
        if self._asked is not None and self._asked >= len(self) and not self.repeat:
            self.epoch += 1
        self._asked = None
