"""Models of one layer and data known by number, for what happens around the steps of a training."""

import keras
import numpy as np

from keras_bert_rebuild import BertModel
from keras_bert_rebuild.data.batches import EpochBatches


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


class Recording:
    """`seen` has the two numbers of the batch of every step, in the order of the steps."""

    def train_step(self, *args):
        self._note(args[-1])
        return super().train_step(*args)

    def test_step(self, *args):
        self._note(args[-1])
        return super().test_step(*args)

    def predict_step(self, *args):
        self._note(args[-1])
        return super().predict_step(*args)

    def _note(self, batch):
        x = keras.ops.convert_to_numpy(keras.utils.unpack_x_y_sample_weight(batch)[0])
        self.__dict__["seen"].append(tuple(map(int, x[0])))


class RecordingModel(Recording, BertModel):
    pass


class OtherModel(Recording, keras.Model):
    """A model that is not from the package."""


def recording_model(kind=RecordingModel):
    inputs = keras.Input((2,))
    model = kind(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", run_eagerly=True)  # a compiled step would record only once, when it is traced
    model.__dict__["seen"] = []
    return model


def numbered(epoch, index):
    """A batch with two numbers in every row; small, so that the weights stay finite."""
    return np.full((2, 2), [epoch, index], "float32"), np.zeros((2, 1), "float32")


class Numbered(EpochBatches):
    """`count` batches per epoch; `made` has those that were requested."""

    def __init__(self, count, **kwargs):
        super().__init__(**kwargs)
        self.count, self.made = count, []

    def __len__(self):
        return self.count

    def batch(self, epoch, index):
        self.made.append((epoch, index))
        return numbered(epoch, index)


class OwnDataset(keras.utils.PyDataset):
    """A user's dataset, whose first number is how many epochs ended before."""

    def __init__(self, count, **kwargs):
        super().__init__(**kwargs)
        self.count, self.ended = count, 0

    @property
    def num_batches(self):
        return self.count

    def __getitem__(self, index):
        return numbered(self.ended, index)

    def on_epoch_end(self):
        self.ended += 1
