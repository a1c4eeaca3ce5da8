"""A prediction in two halves gives what Keras's own gives, in float32."""

import keras
import numpy as np
import pytest
from helpers.compiled_programs import compiled_programs
from helpers.small_tasks import small_encoder, small_task

from keras_bert_rebuild import TextClassifier
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import compiled_ahead, compiles_ahead, dispatched, fetched, train_compiled_ahead

pytestmark = pytest.mark.backend


@pytest.fixture
def rows(rng):
    ids = rng.integers(5, 20, (3, 9)).astype("int32")
    return ids, ids * 0


def test_the_outputs_are_those_of_predict_on_batch(rows):
    model = small_encoder()
    first, second = dispatched(model, rows), dispatched(model, [array[:2] for array in rows])
    expected = model.predict_on_batch(rows)
    for got, wanted in zip(fetched(first), expected, strict=True):
        np.testing.assert_allclose(got, keras.ops.convert_to_numpy(wanted), atol=1e-6)
    for got, wanted in zip(fetched(second), expected, strict=True):
        np.testing.assert_allclose(got, keras.ops.convert_to_numpy(wanted)[:2], atol=1e-6)


def test_later_weights_give_later_answers(rows):
    model = small_encoder(())
    before = fetched(dispatched(model, rows))
    kernel = next(variable for variable in model.weights if variable.path.endswith("query/kernel"))
    kernel.assign(-kernel)
    assert np.abs(fetched(dispatched(model, rows)) - before).max() > 1e-3


def test_outputs_of_half_precision_are_fetched_in_float32(rows):
    keras.config.set_dtype_policy("mixed_bfloat16")
    outputs = fetched(dispatched(small_encoder(()), rows))
    assert outputs.dtype == np.float32
    assert np.isfinite(outputs).all()


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_programs_compiled_ahead_are_those_of_predictions(rows):
    model, shorter = small_encoder(), [array[:, :5] for array in rows]
    expected = [model.predict_on_batch(each) for each in (rows, shorter)]
    with compiled_programs() as programs:
        compiled_ahead(model, [rows, shorter])
        outputs = [fetched(dispatched(model, each)) for each in (shorter, rows, rows)]
    assert programs == [("jit(answer)", "compile-ahead")] * 2
    for got, wanted in zip([*outputs[1], *outputs[2], *outputs[0]], [*expected[0], *expected[0], *expected[1]], strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_a_program_that_could_not_be_compiled_ahead_is_compiled_when_it_is_needed(rows, monkeypatch):
    import jax

    def fail(*arguments, **options):
        raise RuntimeError("the compiler has no memory")

    model = small_encoder(())
    with monkeypatch.context() as broken:
        broken.setattr(jax.stages.Lowered, "compile", fail)
        compiled_ahead(model, [rows])
    assert np.isfinite(fetched(dispatched(model, rows))).all()


@pytest.mark.parametrize("is_accelerator", [False, True])
def test_programs_are_compiled_ahead_on_jax_and_an_accelerator_unless_keras_runs_the_model_itself(is_accelerator, monkeypatch):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: is_accelerator)
    model, on_jax = small_encoder(()), keras.config.backend() == "jax"
    model.compile(jit_compile=True)
    assert compiles_ahead(model) == (on_jax and is_accelerator)
    model.run_eagerly = True
    assert not compiles_ahead(model)
    model.compile(jit_compile=False)
    assert not compiles_ahead(model)
    assert not compiles_ahead("a model of another library")


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_no_step_is_compiled_ahead_for_batches_that_keras_changes(monkeypatch):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    task = small_task(TextClassifier, labels=["cat", "dog"])
    task.compile(keras.optimizers.SGD(0.1))
    batches = task.batches(task.encode([ClassifiedText("the cat", label="cat"), ClassifiedText("the dog", label="dog")]))
    with compiled_programs() as programs:
        task.model.fit(batches, shuffle=False, verbose=0, class_weight={0: 2.0, 1: 1.0})
    assert [program for program in programs if program[0] == "jit(train_step)"] == [("jit(train_step)", "MainThread")]


def test_no_batches_compile_nothing():
    model = small_encoder(())
    train_compiled_ahead(model, [])
    assert model.train_function is None


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_a_training_step_that_could_not_be_compiled_ahead_is_compiled_when_it_is_needed(monkeypatch):
    import jax

    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda lowered: 1 / 0)
    task = small_task(TextClassifier, labels=["cat", "dog"])
    task.compile(keras.optimizers.SGD(0.1))
    batches = task.batches(task.encode([ClassifiedText("the cat", label="cat"), ClassifiedText("the dog", label="dog")]))
    with compiled_programs() as programs:
        (loss,) = task.model.fit(batches, shuffle=False, verbose=0).history["loss"]
    assert np.isfinite(loss)
    assert ("jit(train_step)", "MainThread") in programs
