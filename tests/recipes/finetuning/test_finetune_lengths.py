"""The lengths of a fine-tuning: few where each is compiled, and the same in training and evaluation."""

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, small_encoder

from keras_bert_rebuild import TextClassifier
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.recipes.finetuning.finetune import LENGTHS, shared_lengths
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks import text_rows


@pytest.fixture
def compiled(monkeypatch):
    """As on JAX."""
    monkeypatch.setattr(traits, "compiles_each_shape", lambda model=None: True)


@pytest.fixture
def task():
    return TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("cat", "dog"))


@pytest.fixture
def encoded(rng, task):
    counts = {"train": 500, "dev": 77}
    texts = {name: [" ".join(["cat"] * words) for words in rng.integers(1, 38, count)] for name, count in counts.items()}
    return {name: task.encode([ClassifiedText(text, label="cat") for text in rows]) for name, rows in texts.items()}


def test_a_short_training_has_fewer_lengths_than_a_long_one(encoded, compiled):
    short = shared_lengths(encoded, FinetuneSettings(epochs=1), 40)
    long = shared_lengths(encoded, FinetuneSettings(epochs=100), 40)
    assert 1 <= len(short) < len(long) == LENGTHS
    assert short[-1] == long[-1] == 40
    steps = FinetuneSettings(steps=100 * 500 // 32, batch_size=32)
    assert shared_lengths(encoded, steps, 40) == long


def test_training_and_evaluation_have_at_most_five_shapes(task, encoded, compiled, monkeypatch):
    task.row_lengths = shared_lengths(encoded, FinetuneSettings(epochs=100), 40)
    batches = task.batches(encoded["train"], 32, seed=0)
    trained = {batches[index][0][0].shape for index in range(len(batches))}
    assert len(trained) <= 5
    evaluated, begin = [], text_rows.dispatched
    monkeypatch.setattr(text_rows, "dispatched", lambda model, x: evaluated.append(np.shape(x[0])) or begin(model, x))
    answers = task.predict_windows(encoded["dev"].windows, batch_size=32)
    assert len(answers) == 77
    assert set(evaluated) <= trained  # the last batch is filled up


def test_another_backend_has_the_usual_lengths(encoded, monkeypatch):
    monkeypatch.setattr(traits, "compiles_each_shape", lambda model=None: False)
    assert shared_lengths(encoded, FinetuneSettings(), 40) == [16, 24, 32, 40]
