"""Threads read the datasets of users without losing, repeating or reordering a batch."""

import itertools
import threading

import keras
import numpy as np
import pytest
from helpers.tiny_training import OwnDataset, recording_model

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.bert_model import BertModel

SECONDS = 60  # then a waiting test fails


def seen(dataset, seed=3, **kwargs):
    """The batches that a training gets from a dataset."""
    keras.utils.set_random_seed(seed)
    model = recording_model()
    model.fit(dataset, verbose=0, **kwargs)
    return model.seen


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_a_training_gets_the_batches_in_order_after_the_hooks(workers):
    got = seen(OwnDataset(7, workers=workers), epochs=3, shuffle=False)
    assert [index for _, index in got] == [*range(7)] * 3
    first = got[0][0]  # Keras calls the end-of-epoch hook before the first epoch
    assert [epoch - first for epoch, _ in got] == [0] * 7 + [1] * 7 + [2] * 7


@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("workers", [2, 5])
def test_the_order_is_drawn_as_keras_draws_it_without_threads(workers, count):
    expected = seen(OwnDataset(count), epochs=4)
    assert seen(OwnDataset(count, workers=workers), epochs=4) == expected
    assert count == 1 or seen(OwnDataset(count, workers=workers), epochs=4, seed=4) != expected
    assert sorted(index for _, index in expected) == sorted([*range(count)] * 4)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_pass_may_span_several_epochs(shuffle):
    kwargs = {"epochs": 4, "steps_per_epoch": 4, "shuffle": shuffle}
    expected = [index for _, index in seen(OwnDataset(8), **kwargs)]
    got = [index for _, index in seen(OwnDataset(8, workers=3), **kwargs)]
    assert got == expected
    assert sorted(got[:8]) == sorted(got[8:]) == list(range(8))


def test_an_endless_dataset_continues():
    got = seen(OwnDataset(None, workers=3), epochs=2, steps_per_epoch=5)
    assert [index for _, index in got] == list(range(10))


def test_evaluation_and_prediction_get_the_batches_in_order_too():
    model = recording_model()
    model.evaluate(OwnDataset(6, workers=3), verbose=0)
    model.predict(OwnDataset(5, workers=3), verbose=0)
    model.fit(OwnDataset(4, workers=3), shuffle=False, validation_data=OwnDataset(3, workers=2), verbose=0)
    assert [index for _, index in model.seen] == [*range(6), *range(5), *range(4), *range(3)]


class Asked(OwnDataset):
    """Records the threads that read, and how many at once."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.askers, self.most, self._now = set(), 0, 0
        self._lock = threading.Lock()

    def __getitem__(self, index):
        with self._lock:
            self.askers.add(threading.current_thread().name)
            self._now += 1
            self.most = max(self.most, self._now)
        batch = super().__getitem__(index)
        with self._lock:
            self._now -= 1
        return batch


def test_processes_become_one_thread_with_a_warning():
    dataset = Asked(7, workers=3, use_multiprocessing=True)
    with pytest.warns(UserWarning, match="the batches of Asked are prepared by one thread, not by 3 processes") as warned:
        got = seen(dataset, epochs=2, shuffle=False)
    assert [w.filename for w in warned if "one thread" in str(w.message)] == [__file__]
    assert [index for _, index in got] == [*range(7)] * 2
    assert "read-ahead" in dataset.askers
    assert dataset.most == 1


def test_one_worker_is_the_thread_in_which_keras_reads():
    dataset = Asked(7)
    seen(dataset)
    assert "read-ahead" not in dataset.askers


def test_as_many_batches_are_made_ahead_as_the_queue_holds():
    fifth = threading.Event()

    class Noted(OwnDataset):
        def __getitem__(self, index):
            made.append(index)
            if index == 4:
                fifth.set()
            return super().__getitem__(index)

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 0:
                waited.append(fifth.wait(SECONDS))
            most.append(max(made) - batch)

    made, waited, most = [], [], []
    seen(Noted(40, workers=3, max_queue_size=4), callbacks=[Look()], shuffle=False)
    assert waited == [True]
    if keras.backend.backend() != "tensorflow":  # tf.data holds some more, as many as it chooses
        of_keras = keras.backend.backend() == "jax" and traits.runs_on_accelerator()  # on its way to the device
        assert max(most) == 4 + of_keras


@pytest.mark.parametrize("workers", [0, 3])
def test_a_refused_batch_is_an_error_in_any_thread(workers):
    class Broken(OwnDataset):
        def __getitem__(self, index):
            if index == 3:
                raise ValueError("no fourth batch")
            return super().__getitem__(index)

    with pytest.raises(Exception, match="no fourth batch"):
        seen(Broken(9, workers=workers), shuffle=False)


def test_an_interrupt_does_not_wait_for_a_batch_that_is_being_made():
    begun, is_over, waited = threading.Event(), threading.Event(), []

    class Waits(OwnDataset):
        def __getitem__(self, index):
            if index == 2:
                begun.set()
                waited.append(is_over.wait(SECONDS))
            return super().__getitem__(index)

    class Interrupts(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            assert begun.wait(SECONDS)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seen(Waits(9, workers=3), callbacks=[Interrupts()], shuffle=False)
    assert waited == []
    is_over.set()


TOKENS, SEGMENTS = np.arange(12).reshape(3, 4) % 7, np.arange(12).reshape(3, 4) % 2


def graph(inputs, outputs):
    """Inputs and outputs of a graph with one or two of each."""
    tokens, segments = (keras.Input((4,), dtype="int32", name=name) for name in ("Input-Token", "Input-Segment"))
    x = keras.layers.Embedding(7, 3, name="Embedding-Token")(tokens)
    if inputs == 2:
        x = x + keras.layers.Embedding(2, 3, name="Embedding-Segment")(segments)
    x = keras.layers.Flatten()(x)
    made = [keras.layers.Dense(2, "softmax", name=name)(x) for name in ("one", "two")[:outputs]]
    return [tokens, segments] if inputs == 2 else tokens, made if outputs == 2 else made[0]


def forms(names, values):
    """The structures in which values can be passed."""
    bare = [values[0]] if len(values) == 1 else []
    return [*bare, values, tuple(values), dict(zip(names, values, strict=False))]


def structures(inputs, outputs):
    """Batches in every structure that Keras may take: inputs alone, with labels, with weights; bare, in a list or a tuple."""
    x = forms(("Input-Token", "Input-Segment"), [TOKENS, SEGMENTS][:inputs])
    y = forms(("one", "two"), [np.array([0, 1, 1]), np.array([1, 0, 1])][:outputs])
    weights = forms(("one", "two"), [np.array([1.0, 2.0, 0.5], "float32")] * outputs)
    if inputs == 2:
        x.append((TOKENS, [SEGMENTS]))
    batches = [*((one,) for one in x), *itertools.product(x, y), *((x[-1], *both) for both in zip(y, weights, strict=True))]
    return [*x, *batches, *map(list, batches)]


def arrays(batch):
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    return {"x": x} if y is None else {"x": x, "y": y, "sample_weight": weights}


class Repeated(keras.utils.PyDataset):
    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.batch


def loader(batch):
    torch = pytest.importorskip("torch", reason="a DataLoader is torch's")
    batch = keras.tree.map_structure(torch.as_tensor, batch)
    return {"x": torch.utils.data.DataLoader([batch, batch], batch_size=None)}


def tf_dataset(batch):
    import tensorflow as tf

    return {"x": tf.data.Dataset.from_tensors(batch).repeat(2)}


KINDS = [
    pytest.param(arrays, id="arrays"),
    pytest.param(lambda batch: {"x": Repeated(batch)}, id="PyDataset"),
    pytest.param(lambda batch: {"x": (batch for _ in range(2))}, id="generator"),
    pytest.param(loader, id="DataLoader"),
    pytest.param(tf_dataset, id="tf.data", marks=pytest.mark.backend("tensorflow")),
]


def answers(model, kind, batch):
    """What a model returns for a batch; a learning rate of 0 does not change it."""
    given = kind(batch)
    predicted = model.predict(given["x"], verbose=0)
    if not isinstance(batch, (list, tuple)) or len(batch) == 1:
        return predicted
    return [predicted, model.evaluate(**kind(batch), verbose=0), model.fit(**kind(batch), shuffle=False, verbose=0).history["loss"]]


def plain_and_ours(inputs, outputs):
    """Two models of one graph."""
    given = graph(inputs, outputs)
    models = keras.Model(*given), BertModel(*given)
    for model in models:
        model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy", run_eagerly=True)
    return models


# Keras warns about structures other than that of the graph, and at the end of a generator.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (2, 2)])
def test_a_batch_of_any_structure_that_keras_takes_gives_the_answers_of_keras(kind, inputs, outputs):
    taken, models = 0, None
    for batch in structures(inputs, outputs):
        plain, ours = models = models or plain_and_ours(inputs, outputs)
        try:
            expected = answers(plain, kind, batch)
        except (ValueError, TypeError, KeyError, AttributeError):
            models = None  # a refused training leaves a model without weights on JAX
            continue
        taken += 1
        keras.tree.map_structure(np.testing.assert_array_equal, answers(ours, kind, batch), expected)
    assert taken >= 4
