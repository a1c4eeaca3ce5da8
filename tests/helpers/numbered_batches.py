"""Batches made one by one, for trainings that stop and go on."""

from keras_bert_rebuild.data.epoch_batches import EpochBatches


class NumberedBatches(EpochBatches):
    """The batches from one step of a training to another, each a function of its number alone.

    Args:
        make: from the number of a batch to the batch.
        first, last: the number of the first batch, and of the one behind the last.
        **kwargs: as of `EpochBatches`.
    """

    def __init__(self, make, first, last, **kwargs):
        super().__init__(**kwargs)
        self.make, self.first, self.last = make, first, last

    def __len__(self):
        return self.last - self.first

    def batch(self, epoch, index):
        return self.make(self.first + index)
