"""What `fit` adds to Keras."""

import gc
import weakref

import keras
import pytest
from helpers.recording_model import Numbered, OwnDataset, numbered
from helpers.small import small_batch
from helpers.small_tasks import small_encoder

from keras_bert_rebuild.models.bert_model import BertModel


@pytest.mark.tensorflow
def test_a_training_step_is_traced_once(rng, monkeypatch):
    """Tracing and compiling is most of the time of a short training."""
    traced = []
    step = BertModel.train_step
    monkeypatch.setattr(BertModel, "train_step", lambda self, *batch: traced.append(batch) or step(self, *batch))
    model = small_encoder(heads=("classification",), labels=("no", "yes"))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids, segments, _ = small_batch(rng)[0]
    model.fit((ids % 20, segments), rng.integers(0, 2, 8), batch_size=4, epochs=2, verbose=0)
    assert len(traced) == 1


FITTED = {
    "arrays": lambda: numbered(0, 0),
    "batches of the package": lambda: (Numbered(3),),
    "a user's dataset": lambda: (OwnDataset(3),),
    "a generator that is not read to its end": lambda: ((numbered(0, index) for index in range(9)),),
}


def fitted(data, **kwargs):
    """A weak reference to a new model after a training with an evaluation."""
    inputs = keras.Input((2,))
    model = BertModel(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", **kwargs)
    model.fit(*data(), steps_per_epoch=2, validation_data=OwnDataset(2), verbose=0)
    model.predict(OwnDataset(2), verbose=0)
    return weakref.ref(model)


@pytest.mark.parametrize("data", FITTED.values(), ids=FITTED)
def test_a_fitted_model_is_freed_whatever_it_was_fitted_on(data):
    model = fitted(data)
    gc.collect()
    assert model() is None


@pytest.mark.compiles_long
@pytest.mark.parametrize("jit_compile", [False, True] if keras.config.backend() != "torch" else [False])
def test_ten_fitted_models_are_freed(jit_compile):
    models = [fitted(lambda: (Numbered(2),), jit_compile=jit_compile) for _ in range(10)]
    gc.collect()
    assert [model() for model in models] == [None] * 10


@pytest.mark.tensorflow
def test_a_model_that_was_fitted_on_a_tf_dataset_is_freed():
    import tensorflow as tf

    model = fitted(lambda: (tf.data.Dataset.from_tensors(numbered(0, 0)).repeat(2),))
    gc.collect()
    assert model() is None


@pytest.mark.tensorflow
def test_the_data_of_an_ended_training_is_freed():
    data = Numbered(2)
    inputs = keras.Input((2,))
    model = BertModel(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    model.fit(data, verbose=0)
    reference = weakref.ref(data)
    del data
    gc.collect()
    assert reference() is None
