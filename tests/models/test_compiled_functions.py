"""Compiled steps belong to the interventions that run while they are compiled."""

import gc
import weakref

import keras
import numpy as np
from helpers.small_tasks import small_encoder

from keras_bert_rebuild.kernels.interventions import intervening, running_interventions
from keras_bert_rebuild.models.compiled_functions import FUNCTIONS, follow_interventions

INPUTS = [np.array([[2, 5, 6, 3]]), np.zeros((1, 4), int)]


def test_interventions_end_in_any_order_and_leave_the_set_before():
    first, second = intervening(), intervening()
    assert running_interventions() == frozenset()
    first.__enter__()
    one = running_interventions()
    second.__enter__()
    assert running_interventions() > one
    first.__exit__(None, None, None)
    assert len(running_interventions()) == 1
    assert running_interventions() != one
    second.__exit__(None, None, None)
    assert running_interventions() == frozenset()


def test_a_model_has_its_functions_of_before_again_and_those_of_an_ended_intervention_are_forgotten():
    model = small_encoder(())
    model.predict(INPUTS, verbose=0)
    before = model.predict_function
    with intervening():
        model.predict(INPUTS, verbose=0)
        within = model.predict_function
        assert within is not before
        with intervening():
            follow_interventions(model)
            assert model.predict_function is None
        model.predict(INPUTS, verbose=0)
        assert model.predict_function is within
    model.predict(INPUTS, verbose=0)
    assert model.predict_function is before
    forgotten = weakref.ref(within)
    del within
    gc.collect()
    assert forgotten() is None


def test_a_model_that_is_compiled_within_an_intervention_does_not_get_steps_of_an_older_loss_back():
    model = small_encoder(("classification",), labels=("cat", "dog"))
    loss = keras.losses.MeanSquaredError
    model.compile("sgd", loss())
    model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
    with intervening():
        model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
        model.compile("sgd", keras.losses.MeanAbsoluteError())
        model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
    value = model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
    np.testing.assert_allclose(value, np.abs(keras.ops.convert_to_numpy(model(INPUTS))).mean(), rtol=1e-5)


def test_a_model_without_compiled_steps_has_none_afterwards():
    model = small_encoder(())
    with intervening():
        model.predict(INPUTS, verbose=0)
    follow_interventions(model)
    assert [getattr(model, name, None) for name in FUNCTIONS] == [None] * 3
