"""`PretrainingLoss` and `Perplexity` against float64."""

import keras
import numpy as np
import pytest
from helpers.reference import cross_entropy, softmax
from helpers.small import compiled, small_batch, small_model
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_bert_rebuild.training.losses import Perplexity, PretrainingLoss

pytestmark = pytest.mark.backend


@given(arrays("float32", (3, 4, 6), elements=st.floats(-100, 100, width=32)), st.integers(0, 5))
def test_the_loss_is_exact_for_logits_up_to_100(logits, label):
    labels = np.full((3, 4), label)
    expected = cross_entropy(logits, labels).mean()
    assert float(PretrainingLoss()(labels, logits)) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert float(PretrainingLoss()(labels[..., None], logits)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_the_config_round_trip_preserves_the_number_of_predictions():
    copy = PretrainingLoss.from_config(PretrainingLoss(max_predictions=7, chunk=5, reduction="sum").get_config())
    assert copy.max_predictions == 7
    assert copy.chunk == 5
    assert copy.reduction == "sum"


def test_no_predictions_at_all_are_an_error():
    with pytest.raises(ValueError, match="max_predictions must be at least 1"):
        PretrainingLoss(max_predictions=0)
    with pytest.raises(ValueError, match="chunk must be at least 1 position"):
        PretrainingLoss(chunk=0)


@given(arrays("float32", (3, 6), elements=st.floats(-30, 30, width=32)), st.integers(0, 5))
def test_the_loss_of_probabilities_is_that_of_their_logits(logits, label):
    expected = cross_entropy(logits, np.full(3, label)).mean()
    probabilities = softmax(logits.astype("float64")).astype("float32")
    assert float(PretrainingLoss(from_logits=False)(np.full((3, 1), label), probabilities)) == pytest.approx(
        expected, rel=1e-5, abs=1e-6
    )


def test_a_probability_of_0_has_a_finite_loss():
    loss = PretrainingLoss(from_logits=False)
    assert float(loss(np.array([1]), np.array([[1.0, 0.0]], "float32"))) == pytest.approx(85.2, abs=0.1)
    assert PretrainingLoss.from_config(loss.get_config()).from_logits is False


@pytest.mark.parametrize("arguments", [{"max_predictions": 3}, {"chunk": 8}])
def test_gathering_and_chunks_need_logits(arguments):
    with pytest.raises(ValueError, match="max_predictions and chunk are for a loss from logits; got"):
        PretrainingLoss(from_logits=False, **arguments)


def test_every_position_counts_once_for_any_batches(rng):
    p = rng.dirichlet(np.ones(5), 12).astype("float32")
    labels = rng.integers(0, 5, 12)
    metric = Perplexity()
    for part in (slice(0, 2), slice(2, 12)):
        metric.update_state(labels[part], np.log(p[part]))
    assert float(metric.result()) == pytest.approx(np.exp(-np.log(p[np.arange(12), labels]).mean()), rel=1e-5)


def test_weights_count_and_labels_of_weight_0_may_be_anything():
    metric = Perplexity()
    metric.update_state(np.array([[0], [-100]]), np.log([[0.25, 0.75], [0.5, 0.5]]), sample_weight=np.array([1.0, 0.0]))
    assert float(metric.result()) == pytest.approx(4.0)


@pytest.mark.slow
def test_a_compiled_model_is_saved_with_it(rng, tmp_path):
    x, y = small_batch(rng)
    model = compiled(small_model(transformer_num=1), metrics=[["accuracy", Perplexity()], ["accuracy"]], max_predictions=4)
    logs = model.evaluate(x, y, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "MLM_loss", "NSP_loss", "MLM_accuracy", "MLM_perplexity", "NSP_accuracy"}
    assert logs["MLM_perplexity"] == pytest.approx(np.exp(logs["MLM_loss"]), rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.evaluate(x, y, verbose=0, return_dict=True) == pytest.approx(logs, rel=1e-6)
