"""A head in which every token predicts itself."""

import keras
import numpy as np
import pytest
from helpers.small_tasks import WORDS, sentence, small_task

from keras_bert_rebuild import SparseEmbedder
from keras_bert_rebuild.tasks.own_tokens import predict_own_tokens


@pytest.fixture
def texts(rng):
    return [sentence(rng, 10) for _ in range(40)]


def logits_of(task, texts):
    """The logits of every token but those at the ends of a text, `(tokens, vocabulary)`, and its own id."""
    encoder = task.encoder
    states = keras.Model(task.model.inputs, encoder.get_layer("MLM-Norm").output)
    table = keras.ops.convert_to_numpy(encoder.get_layer("Embedding-Token").embeddings)
    bias = keras.ops.convert_to_numpy(encoder.get_layer("MLM-Sim").bias)
    rows = [np.array([row]) for row in task.windows(texts).ids]
    found = [keras.ops.convert_to_numpy(states([row, np.zeros_like(row)]))[0, 1:-1] @ table.T + bias for row in rows]
    return np.concatenate(found), np.concatenate([row[0, 1:-1] for row in rows])


def test_tokens_predict_themselves_in_a_model_of_random_weights(texts):
    task = small_task(SparseEmbedder, max_len=16)

    def right():
        logits, ids = logits_of(task, texts)
        return np.mean(logits.argmax(axis=1) == ids)

    before = right()
    predict_own_tokens(task, texts)
    assert before < 0.1
    assert right() > 0.4


def test_the_median_logit_of_a_token_itself_is_the_one_that_is_asked_for(texts):
    task = small_task(SparseEmbedder, max_len=16)
    predict_own_tokens(task, texts, own=0.6, threshold=0.5)
    logits, ids = logits_of(task, texts)
    assert np.median(logits[np.arange(len(ids)), ids]) == pytest.approx(0.6, abs=0.01)


def test_too_few_tokens_are_refused():
    with pytest.raises(ValueError, match=r"expected texts of at least \d+ tokens, twice the width of the model; got 2"):
        predict_own_tokens(small_task(SparseEmbedder, max_len=16), [" ".join(WORDS[:2])])
