"""Recordings are the values that the model computes, of a model and of a task, whole and in batches."""

import keras
import numpy as np
import pytest
from helpers.small import random_model
from helpers.small_tasks import CONFIG, small_encoder, small_task

from keras_bert_rebuild import TextClassifier, attention_maps
from keras_bert_rebuild.interpret import Block, Head, Neuron, Position, intervene, record, record_means

TEXTS = ["the cat sat", "a dog likes anna and ben"]


def test_recorded_values_are_those_of_the_attention_maps_and_of_the_model():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    recording = record(task, TEXTS, [Head(1, 1), Block(0), Neuron(1, (4, 2)), Position(1, 0)])
    maps = attention_maps(task.model, texts=TEXTS, tokenizer=task.tokenizer, vectors=True)
    np.testing.assert_allclose(recording.of(Head(1, 1)), (maps.probabilities @ maps.values)[1, :, 1], atol=1e-5)
    np.testing.assert_allclose(recording.of(Block(0)), maps.outputs[0], atol=1e-6)
    np.testing.assert_allclose(recording.of(Position(1, 0)), maps.outputs[1], atol=1e-6)
    assert recording.of(Neuron(1, (4, 2))).shape == (2, maps.mask.shape[1], 2)
    np.testing.assert_array_equal(recording.mask, maps.mask)
    assert recording.tokens == maps.tokens


def test_units_are_recorded_in_the_order_in_which_they_are_named():
    model = random_model(CONFIG, [], np.random.default_rng(0))
    inputs = [np.array([[2, 5, 6, 3]]), np.zeros((1, 4), int)]
    both, first, second = Neuron(0, (7, 3)), Neuron(0, 7), Neuron(0, 3)
    recording = record(model, inputs, [both, first, second])
    np.testing.assert_array_equal(recording.of(both), np.concatenate([recording.of(first), recording.of(second)], -1))
    means = recording.mean().of(both)[0, 0]
    with intervene(model, {both: means}):
        np.testing.assert_allclose(record(model, inputs, [first]).of(first), means[0], atol=1e-6)


@pytest.mark.slow
def test_means_over_batches_are_the_mean_over_all_tokens():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    texts, sites = [*TEXTS, "red", "the mat of london and paris"], [Head(0, 0), Block(1)]
    whole, batches = record(task, texts, sites).mean(), record_means(task, texts, sites, batch_size=3)
    ids = task.tokenizer.encode_batch(texts[:1]).ids[0]
    arrays = record_means(task.model, [np.array([ids]), np.zeros((1, len(ids)), int)], sites)
    for site in sites:
        np.testing.assert_allclose(batches.of(site), whole.of(site), atol=1e-6)
        np.testing.assert_allclose(arrays.of(site), record(task, texts[:1], sites).mean().of(site), atol=1e-6)
    assert whole.mask is None
    assert whole.mean() is whole


def test_pairs_of_texts_are_one_row_each():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    recording = record(task, [("the cat", "a dog"), ("red", "blue")], [Block(0)])
    assert recording.tokens[0] == ("[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]")


def test_a_recording_within_an_intervention_has_the_altered_values():
    model = small_encoder(())
    inputs = [np.array([[2, 5, 6, 3]]), np.zeros((1, 4), int)]
    with intervene(model, [Head(0, 1)]):
        recording = record(model, inputs, [Head(0, 1), Head(0, 0)])
    assert not recording.of(Head(0, 1)).any()
    assert recording.of(Head(0, 0)).any()
    assert keras.ops.convert_to_numpy(model(inputs)).any()


@pytest.mark.parametrize(
    ("subject", "inputs", "words"),
    [
        (small_encoder, TEXTS, "inputs must be arrays of ids"),
        (lambda heads: "bert", TEXTS, "expected a model or a task"),
        (small_encoder, [np.zeros((1, 4))], "expected 2 inputs"),
    ],
)
def test_what_cannot_be_recorded_is_refused(subject, inputs, words):
    with pytest.raises(ValueError, match=words):
        record(subject(()), inputs, [Block(0)])
    recording = record(small_encoder(()), [np.array([[2, 3]]), np.zeros((1, 2), int)], [Block(0)])
    with pytest.raises(ValueError, match="expected one of the recorded sites"):
        recording.of(Block(1))
    with pytest.raises(ValueError, match="got a mean, which has none"):
        recording.mean().row(0)
