"""Compiled steps belong to the execution under which they are compiled."""

import gc
import weakref

import keras
import numpy as np
import pytest
from helpers.small_tasks import small_encoder

from keras_bert_rebuild.layers import Add
from keras_bert_rebuild.layers.seam import Execution, executing, execution
from keras_bert_rebuild.models.running_step import FUNCTIONS, follow_execution

pytestmark = pytest.mark.backend

INPUTS = [np.array([[2, 5, 6, 3]]), np.zeros((1, 4), int)]


def rule():
    """A rule that changes nothing, unlike any other."""
    return Add.call, lambda replaced, layer, inputs: replaced(layer, inputs)


def test_an_execution_follows_those_that_it_is_made_of():
    first, second = rule(), rule()
    plain = execution()
    with executing(first):
        one = execution()
        with executing(second):
            both = execution()
    assert both == Execution((first, second))
    assert [both.follows(other) for other in (plain, one, both)] == [True] * 3
    assert [one.follows(other) for other in (plain, one, both)] == [True, True, False]
    assert not both.follows(Execution((second,)))
    assert not Execution((second, first)).follows(one)


def test_a_model_has_its_functions_of_before_again_and_those_of_an_ended_intervention_are_forgotten():
    model = small_encoder(())
    model.predict(INPUTS, verbose=0)
    before = model.predict_function
    with executing(rule()):
        model.predict(INPUTS, verbose=0)
        within = model.predict_function
        assert within is not before
        with executing(rule()):
            follow_execution(model)
            assert model.predict_function is None
        model.predict(INPUTS, verbose=0)
        assert model.predict_function is within
    model.predict(INPUTS, verbose=0)
    assert model.predict_function is before
    forgotten = weakref.ref(within)
    del within
    gc.collect()
    assert forgotten() is None


def test_the_functions_of_an_equal_execution_are_used_again():
    model, outer, inner = small_encoder(()), rule(), rule()
    with executing(outer, inner):
        model.predict(INPUTS, verbose=0)
        within = model.predict_function
    with executing(outer), executing(inner):
        model.predict(INPUTS, verbose=0)
        assert model.predict_function is within


def test_a_step_that_is_compiled_under_a_rule_follows_it_and_the_next_one_does_not():
    model = small_encoder(("classification",), labels=("cat", "dog"))
    plain = model.predict(INPUTS, verbose=0)
    with executing((Add.call, lambda replaced, layer, inputs: replaced(layer, [inputs[0], -inputs[1]]))):
        assert np.abs(model.predict(INPUTS, verbose=0) - plain).max() > 1e-6
    np.testing.assert_array_equal(model.predict(INPUTS, verbose=0), plain)


def test_a_model_that_is_compiled_within_an_intervention_does_not_get_steps_of_an_older_loss_back():
    model = small_encoder(("classification",), labels=("cat", "dog"))
    loss = keras.losses.MeanSquaredError
    model.compile("sgd", loss())
    model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
    with executing(rule()):
        model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
        model.compile("sgd", keras.losses.MeanAbsoluteError())
        model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
    value = model.evaluate(INPUTS, np.zeros((1, 2)), verbose=0)
    np.testing.assert_allclose(value, np.abs(keras.ops.convert_to_numpy(model(INPUTS))).mean(), rtol=1e-5)


def test_a_model_without_compiled_steps_has_none_afterwards():
    model = small_encoder(())
    with executing(rule()):
        model.predict(INPUTS, verbose=0)
    follow_execution(model)
    assert [getattr(model, name, None) for name in FUNCTIONS] == [None] * 3
