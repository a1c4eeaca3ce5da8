"""Rows are predicted in batches of similar length, in the order of the rows, and JAX compiles their programs ahead."""

import keras
import numpy as np
import pytest
from helpers.compiled_programs import compiled_programs
from helpers.small_tasks import sentence, small_encoder, small_task

from keras_bert_rebuild import Reranker, SparseEmbedder, TextClassifier, TokenClassifier
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TaggedWords, TextGroup
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.tasks import row_predictions
from keras_bert_rebuild.tasks.row_predictions import compile_predictions_ahead, predict_rows
from keras_bert_rebuild.tasks.text_rows import buckets_for

ON_JAX = pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")


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
    assert {shape[1] for shape in recorded.shapes} <= set(buckets_for((), 40))
    assert all(shape[0] in (1, 2, 4) for shape in recorded.shapes)
    assert said[-1] == (7, 7)


@ON_JAX
@pytest.mark.parametrize("is_accelerator", [False, True])
def test_an_accelerator_compiles_all_lengths_at_once(is_accelerator, monkeypatch, rng):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: is_accelerator)
    task = small_task(TextClassifier, labels=["cat", "dog"])
    texts = [sentence(rng, words) for words in (3, 38, 17, 5, 20, 3, 9)]
    with compiled_programs() as programs:
        answers = task(texts, batch_size=3)
    threads = [thread for name, thread in programs if name == "jit(answer)"]
    assert len(threads) > 1
    assert set(threads) == {"compile-ahead" if is_accelerator else "MainThread"}
    with compiled_programs() as programs:
        assert task(texts, batch_size=3) == answers
    assert "jit(answer)" not in dict(programs)


@ON_JAX
def test_only_tasks_that_predict_the_rows_of_their_examples_compile_them_ahead(monkeypatch):
    compiled = []
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    monkeypatch.setattr(row_predictions, "compiled_ahead", lambda model, batches: compiled.append((model, len(batches))))
    groups = [TextGroup("the cat", "the cat sat", ("the dog sat",))]
    tasks = {
        small_task(TextClassifier, labels=["cat", "dog"]): [ClassifiedText("the cat sat"), ClassifiedText("the cat " * 15)],
        small_task(TokenClassifier, labels=["cat", "dog"]): [TaggedWords(("the", "cat"), None)],
        small_task(Reranker): groups,
        small_task(SparseEmbedder): groups,
    }
    for task, examples in tasks.items():
        compile_predictions_ahead(task, task.encode(examples), 1)
    classifier, tagger, *_ = tasks
    assert compiled == [(classifier.model, 2), (tagger.model, 1)]
