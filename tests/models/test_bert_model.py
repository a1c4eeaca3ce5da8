"""What `fit` adds to Keras, and how few methods and files a reader has to know for it."""

import gc
import importlib
import sys
import types
import weakref
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.small import compiled, small_batch, small_model
from helpers.small_tasks import small_encoder
from helpers.tiny_training import Numbered, OwnDataset, numbered

import keras_bert_rebuild
from keras_bert_rebuild import compile_model
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.checked_model import CheckedModel
from keras_bert_rebuild.models.label_means import LabelMeansModel
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.training.task_losses import LabelLoss

pytestmark = pytest.mark.backend


@pytest.mark.backend("tensorflow")
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


@pytest.mark.backend("tensorflow")
def test_a_model_that_was_fitted_on_a_tf_dataset_is_freed():
    import tensorflow as tf

    model = fitted(lambda: (tf.data.Dataset.from_tensors(numbered(0, 0)).repeat(2),))
    gc.collect()
    assert model() is None


@pytest.mark.backend("tensorflow")
@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"loss_chunk": 4}])
def test_fitting_another_model_leaves_no_graph_behind(rng, options):
    import tensorflow as tf

    def graphs_after_another():
        model = small_model(dropout_rate=0.1)
        compile_model(model, **options)  # with an optimizer of ours: those of Keras leave a graph behind
        model.fit(*small_batch(rng), batch_size=4, verbose=0)
        del model
        gc.collect()
        return sum(isinstance(thing, tf.Graph) for thing in gc.get_objects())

    first = graphs_after_another()
    assert graphs_after_another() == first


@pytest.mark.backend("tensorflow")
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


def guided_step(model, *given):
    """The `train_step` of Keras's guide "Customizing what happens in fit()" for the backend."""
    x, y = given[-1]
    backend = keras.config.backend()
    if backend == "jax":
        return _guided_step_of_jax(model, *given)
    if backend == "torch":
        model.zero_grad()
        y_pred = model(x, training=True)
        model.compute_loss(y=y, y_pred=y_pred).backward()
        loss = model.compute_loss(y=y, y_pred=y_pred)
        gradients = [variable.value.grad for variable in model.trainable_weights]
        with importlib.import_module("torch").no_grad():
            model.optimizer.apply(gradients, model.trainable_weights)
    else:
        with importlib.import_module("tensorflow").GradientTape() as tape:
            y_pred = model(x, training=True)
            loss = model.compute_loss(y=y, y_pred=y_pred)
        model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    for metric in model.metrics:
        metric.update_state(*((loss,) if metric.name == "loss" else (y, y_pred)))
    return {metric.name: metric.result() for metric in model.metrics}


def _guided_step_of_jax(model, state, data):
    import jax

    trainable, others, optimizer, metrics = state
    x, y = data

    def loss_of(trainable, others):
        y_pred, others = model.stateless_call(trainable, others, x, training=True)
        return model.compute_loss(x, y, y_pred), (y_pred, others)

    (loss, (y_pred, others)), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, others)
    trainable, optimizer = model.optimizer.stateless_apply(optimizer, gradients, trainable)
    new, logs = [], {}
    for metric in model.metrics:
        own = metrics[len(new) : len(new) + len(metric.variables)]
        own = metric.stateless_update_state(own, *((loss,) if metric.name == "loss" else (y, y_pred)))
        logs[metric.name] = metric.stateless_result(own)
        new += own
    return logs, (trainable, others, optimizer, new)


class Plain(keras.Model):
    train_step = guided_step


class Guided(BertModel):
    train_step = guided_step


@pytest.mark.slow
def test_the_training_step_of_keras_guide_trains_as_in_a_plain_model(rng):
    (ids, segments, _), _ = small_batch(rng)
    labels = rng.integers(0, 2, 8)
    graph = small_encoder(heads=("classification",), labels=("no", "yes"))
    found = []
    for kind in (Plain, Guided):
        model = kind(graph.inputs, graph.outputs)
        start = model.get_weights()
        model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        history = model.fit((ids % 20, segments), labels, batch_size=4, epochs=2, shuffle=False, verbose=0).history
        found.append({**history, "weights": model.get_weights()})
        model.set_weights(start)
    plain, ours = found
    keras.tree.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), ours, plain)


def test_a_loop_of_ones_own_may_meet_another_shape(rng):
    model = small_encoder(heads=("classification",), labels=("no", "yes"))
    model.compile("sgd", LabelLoss())

    def loss_of(trainable, others, x, y):
        y_pred, _ = model.stateless_call(trainable, others, x, training=True)
        return model.compute_loss(x, y, y_pred)

    if keras.config.backend() == "jax":
        jax = importlib.import_module("jax")
        step = jax.jit(jax.value_and_grad(loss_of))
    elif keras.config.backend() == "tensorflow":
        step = importlib.import_module("tensorflow").function(loss_of)
    else:
        step = loss_of
    state = [[variable.value for variable in variables] for variables in (model.trainable_variables, model.non_trainable_variables)]
    for rows in (4, 2):
        ids, segments, _ = small_batch(rng, batch=rows)[0]
        x = tuple(keras.ops.convert_to_tensor(values, "int32") for values in (ids % 20, segments))
        loss = keras.tree.flatten(step(*state, x, keras.ops.zeros(rows, "int32")))[0]
        assert np.isfinite(keras.ops.convert_to_numpy(loss))


def test_a_clone_has_the_config_and_the_rematerialisation_of_the_model(rng):
    model = small_model()
    model.remat = True
    model.compile("sgd", ["sparse_categorical_crossentropy"] * 2)
    (ids, segments, chosen), _ = small_batch(rng)
    tensors = [keras.ops.convert_to_tensor(values, "int32") for values in (ids, segments, chosen)]
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert (clone.config, clone.remat, clone._plan.remat) == (model.config, True, True)
    assert not set(clone.layers) & set(model.layers)
    for ours, theirs in zip(clone(tensors), model(tensors), strict=True):
        np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (ours, theirs)), rtol=1e-6)


def test_a_model_around_the_outputs_of_another_has_no_config():
    model = small_model()
    assert BertModel(model.inputs, model(model.inputs)).config is None


def test_several_steps_per_call_on_several_replicas_are_refused_in_one_sentence():
    class OnTwo(BertModel):
        distribute_strategy = types.SimpleNamespace(num_replicas_in_sync=2)

    inputs = keras.Input((2,))
    model = OnTwo(inputs, keras.layers.Dense(1)(inputs))
    with pytest.raises(ValueError, match=r"steps_per_execution must be 1 under distribute\('mirrored'\); got 2"):
        model.compile("sgd", "mse", steps_per_execution=2)


@pytest.mark.parametrize(("kind", "most"), [(CheckedModel, 9), (LabelMeansModel, 3), (BertModel, 9), (PretrainingModel, 6)])
def test_a_model_class_overrides_few_methods_of_keras(kind, most):
    methods = {name for name, value in vars(kind).items() if callable(value) or isinstance(value, (classmethod, property))}
    overridden = {name for name in methods if hasattr(keras.Model(), name)}
    assert 0 < len(overridden) <= most, sorted(overridden)


PACKAGE = Path(keras_bert_rebuild.__file__).parent


def files_until(file, function, call):
    """The files that a call enters until it enters a function of this file."""
    entered, arrived = {}, []

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and not arrived and PACKAGE in path.parents:
            name = path.relative_to(PACKAGE).as_posix()
            entered[name] = None
            if name == file and frame.f_code.co_name == function:
                arrived.append(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    assert arrived
    return [name for name in entered if name == file or not name.startswith("layers/")]


def test_get_model_makes_attention_within_nine_files():
    files = files_until("layers/multi_head_self_attention.py", "__init__", small_model)
    assert len(files) <= 9, files


def test_compile_model_makes_its_losses_within_six_files():
    model = small_model()
    files = files_until("training/losses.py", "__init__", lambda: compile_model(model))
    assert len(files) <= 6, files


def test_fit_calls_the_first_layer_within_twelve_files(rng):
    """On TensorFlow within 18: there the first call is already that of a step, without padding."""
    model = compiled(small_model(), run_eagerly=True)
    inputs, labels = (list(map(np.asarray, part)) for part in small_batch(rng))
    files = files_until("layers/token_embedding.py", "call", lambda: model.fit(inputs, labels, verbose=0))
    assert len(files) <= (18 if keras.config.backend() == "tensorflow" else 12), files
