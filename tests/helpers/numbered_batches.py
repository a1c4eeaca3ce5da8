"""Batches made one by one, for trainings that stop and resume."""

from keras_bert_rebuild.data.batches import EpochBatches


class NumberedBatches(EpochBatches):
    """The batches from one step of a training to another, each a function of its number alone.

    Args:
        make: makes the batch of a number.
        first, last: the number of the first batch, and one more than the number of the last.
        **kwargs: see `EpochBatches`.
    """

    def __init__(self, make, first, last, **kwargs):
        super().__init__(**kwargs)
        self.make, self.first, self.last = make, first, last

    def __len__(self):
        return self.last - self.first

    def batch(self, epoch, index):
        return self.make(self.first + index)
