"""Pipelines of `tf.data` that no thread tunes."""

import keras
import numpy as np
import pytest
from helpers.tiny_training import Numbered, OtherModel, numbered, recording_model

from keras_bert_rebuild.data.batches import EpochBatches
from keras_bert_rebuild.models.checked_data import CheckedPyDataset, checked_data, in_epochs

pytestmark = pytest.mark.backend("tensorflow")


class Lengths(EpochBatches):
    """Batches of two rows of each of these lengths: the epoch, the index, and the index again as labels."""

    def __init__(self, *lengths, **kwargs):
        super().__init__(**kwargs)
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths)

    def batch(self, epoch, index):
        return (np.full((2, self.lengths[index]), epoch, "int32"), np.full((2, 1), index, "int32")), np.full((2, 1), float(index))


def pipeline(data, **arguments):
    checked = checked_data(data, lambda batch: batch)
    return checked, in_epochs(checked, arguments, 1)


def test_batches_that_keep_their_order_are_read_through_a_pipeline_that_is_not_tuned():
    _, dataset = pipeline(Lengths(4, 4, 4))
    assert dataset.options().autotune.enabled is False
    assert int(dataset.cardinality()) == 3


def test_every_iteration_is_the_next_epoch_and_its_end_is_told():
    data = Lengths(4, 4, 4, start_epoch=5)
    checked, dataset = pipeline(data)
    for epoch in (5, 6):
        found = [(int(x[0][0, 0]), int(x[1][0, 0]), float(y[0, 0])) for x, y in dataset]
        assert found == [(epoch, index, index) for index in range(3)]
    assert data.epoch == 6
    checked.end_epoch()
    assert data.epoch == 7


def test_an_epoch_that_is_left_begins_again():
    data = Lengths(4, 4, 4, 4, 4, 4, 4, 4)
    _, dataset = pipeline(data)
    next(iter(dataset))
    assert [int(x[0][0, 0]) for x, _ in dataset] == [0] * 8


@pytest.mark.parametrize("last", [0, 3, 5, 7])
def test_a_training_that_is_stopped_in_an_epoch_begins_it_again_although_threads_made_all_batches(last):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == last

    model, data = recording_model(), Numbered(8, workers=5)
    model.fit(data, callbacks=[Stop()], verbose=0)
    model.fit(data, verbose=0)
    assert model.seen[last + 1 :] == [(int(last == 7), index) for index in range(8)]


def test_a_dimension_that_differs_between_the_first_two_batches_may_have_any_size():
    _, dataset = pipeline(Lengths(4, 6, 9))
    (ids, index), labels = dataset.element_spec
    assert [spec.shape.as_list() for spec in (ids, index, labels)] == [[None, None], [None, 1], [None, 1]]
    assert [x[0].shape[1] for x, _ in dataset] == [4, 6, 9]


@pytest.mark.parametrize("arguments", [{"shuffle": True}, {"steps_per_epoch": 2}, {"steps": 2}, {"class_weight": {0: 1.0}}])
def test_other_ways_to_read_an_epoch_are_left_to_keras(arguments):
    _, dataset = pipeline(Lengths(4, 4, 4), **arguments)
    assert isinstance(dataset, CheckedPyDataset)


class Users(keras.utils.PyDataset):
    """A user's dataset, without hooks, of batches of any kind."""

    def __init__(self, *batches):
        super().__init__()
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


class Growing(Users):
    """A user's dataset with another batch in every epoch."""

    def on_epoch_end(self):
        self.batches = (*self.batches, self.batches[0])


@pytest.mark.slow
def test_a_users_dataset_without_hooks_is_read_through_a_pipeline_and_shuffled_as_in_keras():
    data = Users(*(numbered(0, index) for index in range(9)))
    assert not isinstance(pipeline(data)[1], CheckedPyDataset)

    def seen(model):
        keras.utils.set_random_seed(3)
        model.fit(data, epochs=3, validation_data=data, verbose=0)
        model.predict(data, verbose=0)
        return [index for _, index in model.seen]

    expected = seen(recording_model(OtherModel))
    assert seen(recording_model()) == expected
    assert len(expected) == 7 * 9
    assert expected[:9] != expected[-9:] == list(range(9))


def test_an_epoch_has_as_many_batches_as_the_first_as_in_keras_and_refuses_to_have_fewer():
    data = Users(*(numbered(0, index) for index in range(4)))
    _, dataset = pipeline(data)
    data.batches = (*data.batches, data.batches[0])
    assert len(list(dataset)) == 4
    data.batches = data.batches[:3]
    with pytest.raises(Exception, match="Users: expected 4 batches in every epoch, as many as there were at first; got 3"):
        list(dataset)


@pytest.mark.parametrize(
    "data",
    [
        Growing((np.zeros((2, 3)), np.zeros((2, 1)))),
        Users((np.zeros((2, 3)), [[0.0], [1.0]])),
        Users((np.zeros((2, 3)), np.zeros((2, 1)), None)),
        Users((np.zeros((2, 3)), np.array(1.0))),
        Users(),
    ],
    ids=["as many batches as its hooks say", "lists", "no weights", "a number", "nothing"],
)
def test_what_a_pipeline_cannot_be_told_is_left_to_keras(data):
    assert isinstance(pipeline(data)[1], CheckedPyDataset)
