"""Batches are copied to an accelerator by the threads that prepare them, and only then."""

import threading

import keras
import numpy as np
import pytest
from helpers.numbered_batches import NumberedBatches
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild.kernels import asynchronous, traits
from keras_bert_rebuild.models import checked_data

pytestmark = pytest.mark.backend


def batches(workers):
    return NumberedBatches(lambda number: small_batch(np.random.default_rng([number, 5])), 0, 3, workers=workers)


@pytest.fixture
def put(monkeypatch):
    """The names of the threads that put arrays ahead; the arrays stay where they are."""
    threads = []

    def note(array):
        threads.append(threading.current_thread().name)
        return array

    monkeypatch.setattr(checked_data, "put_ahead", lambda: note)
    return threads


def test_the_threads_that_make_batches_put_them_ahead(put):
    model = compiled(small_model(transformer_num=1), max_predictions=4)
    model.fit(batches(workers=2), verbose=0)
    assert set(put) == {"read-ahead"}
    put.clear()
    model.fit(batches(workers=0), verbose=0)
    model.evaluate(batches(workers=2), verbose=0)
    assert put == []  # Keras does it at the step


@pytest.mark.skipif(traits.runs_on_accelerator(), reason="of a processor")
def test_on_a_processor_nothing_is_put_ahead():
    assert asynchronous.put_ahead() is None


@pytest.mark.skipif(keras.config.backend() != "torch", reason="of torch")
def test_on_a_device_without_pinned_memory_arrays_are_left_to_keras(monkeypatch):
    import torch

    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)  # such as Apple's
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    array = np.arange(6, dtype="int32")
    assert asynchronous.put_ahead()(array) is array
    model = small_model()
    x, _ = small_batch(np.random.default_rng(0))
    assert len(asynchronous.dispatched(model, x)) == 2


@pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX")
def test_keras_divides_batches_among_devices_itself(monkeypatch):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    array = np.arange(6, dtype="int32").reshape(2, 3)
    on_device = asynchronous.put_ahead()(array)
    assert keras.ops.is_tensor(on_device)
    assert np.array_equal(on_device, array)
    with keras.distribution.DataParallel(auto_shard_dataset=False).scope():
        assert asynchronous.put_ahead() is None
