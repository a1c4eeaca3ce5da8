"""A dataset of Keras that knows which epoch it is in."""

import keras


class EpochBatches(keras.utils.PyDataset):
    """Batches that are a function of epoch and index, `batch(epoch, index)`, handed to Keras epoch after epoch.

    `fit` changes the order of the batches of an epoch unless it is told `shuffle=False`, and must not be told `steps_per_epoch`.

    Args:
        start_epoch: number of the first epoch.
        repeat: whether every epoch has the batches of the first, as an evaluation wants it.
        workers: threads that make batches while a model trains; 0 makes them in between.
        **kwargs: for `keras.utils.PyDataset`.
    """

    def __init__(self, start_epoch=0, repeat=False, workers=0, **kwargs):
        super().__init__(workers=workers, **kwargs)
        self.epoch = start_epoch
        self.repeat = repeat
        self._asked = None

    def batch(self, epoch, index):
        """Batch `index` of an epoch, whatever was asked for before."""
        raise NotImplementedError

    def __getitem__(self, index):
        if self._asked is not None:
            self._asked += 1
        return self.batch(self.epoch, index)

    def on_epoch_begin(self):
        self._asked = 0

    def on_epoch_end(self):
        # Keras ends epochs that never began, and takes one batch of an epoch and ends it to build a model.
        if self._asked is not None and self._asked >= len(self) and not self.repeat:
            self.epoch += 1
        self._asked = None
