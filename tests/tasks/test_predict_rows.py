"""Predictions for rows of any length, in order."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
from helpers.small_tasks import small_encoder, small_task

from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.tasks.predict_rows import buckets_up_to, predict_rows
from keras_bert_rebuild.tasks.text_classifier import TextClassifier


class Recorded:
    """A model that records the shapes of its batches."""

    def __init__(self, model):
        self.model, self.shapes = model, []

    def predict_on_batch(self, x):
        self.shapes.append(x[0].shape)
        return self.model.predict_on_batch(x)


def test_results_come_in_the_order_of_the_rows_for_any_batches(rng):
    model = small_encoder(["token_classification"], labels=("a", "b", "c"))
    rows = [rng.integers(5, 20, length) for length in (3, 38, 17, 5, 20, 3, 9)]
    inputs, padding = model_inputs([tensor.name for tensor in model.inputs], rows, [row * 0 for row in rows], 0)
    recorded, said = Recorded(model), []
    options = {"max_len": 40, "batch_size": 4, "per_token": True, "progress": lambda *counts: said.append(counts)}
    got = predict_rows(recorded, inputs, padding, **options)
    for row, answer in zip(rows, got, strict=True):
        alone = keras.ops.convert_to_numpy(model.predict_on_batch([row[None], row[None] * 0]))[0]
        np.testing.assert_allclose(answer, alone, atol=1e-5)
    assert {shape[1] for shape in recorded.shapes} <= set(buckets_up_to(40))
    assert all(shape[0] in (1, 2, 4) for shape in recorded.shapes)
    assert said[-1] == (7, 7)


def test_lengths_are_limited_to_the_longest_row():
    assert buckets_up_to(40)[-1] == 40
    assert buckets_up_to(8) == [8]
    assert max(buckets_up_to(512)) == 512


def test_four_threads_get_the_answers_of_one():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    questions = [["the cat sat " * (1 + i % 4)] * (1 + i % 3) for i in range(48)]
    expected = [[round(one.probability, 4) for one in task(texts)] for texts in questions]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(task, questions))
    assert [[round(one.probability, 4) for one in answers] for answers in found] == expected
