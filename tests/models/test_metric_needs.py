"""What metrics are given."""

import keras
import pytest
from small import compiled, small_model

from keras_bert_rebuild.models.metric_needs import LOG_PROBABILITIES, LOGITS, PROBABILITIES, needs_of
from keras_bert_rebuild.training.metrics import Perplexity


class TakesLogits(keras.metrics.Mean):
    takes_logits = True


@pytest.mark.parametrize(
    ("make", "need"),
    [
        (list, None),
        (lambda: ["accuracy", None, keras.metrics.SparseCategoricalAccuracy()], None),
        (lambda: ["accuracy", Perplexity()], LOG_PROBABILITIES),
        (lambda: [TakesLogits(), Perplexity()], LOG_PROBABILITIES),
        (lambda: [TakesLogits()], LOGITS),
        (lambda: ["acc", keras.metrics.SparseTopKCategoricalAccuracy()], PROBABILITIES),
        (lambda: ["mse"], PROBABILITIES),
    ],
)
def test_the_metrics_of_a_head_say_what_they_need(make, need):
    assert needs_of("MLM", make()) == need


def test_metrics_that_want_different_things_are_an_error():
    with pytest.raises(ValueError, match="metrics of MLM: expected metrics that all take logits or all take probabilities; got "):
        compiled(small_model(transformer_num=1), metrics=[[Perplexity(), "mse"], None])


def test_a_loss_in_chunks_has_no_probabilities_for_metrics():
    model = small_model(transformer_num=1)
    with pytest.raises(ValueError, match="got mse, which need the probability of every token: compile with loss_chunk=None"):
        compiled(model, loss_chunk=4, metrics={"MLM": ["accuracy", "mse"]})
    compiled(model, loss_chunk=4, metrics={"NSP": ["mse"]})
