"""`Perplexity` against NumPy."""

import keras
import numpy as np
import pytest
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild.training.losses import Perplexity


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


@pytest.mark.compiles_long
def test_a_compiled_model_is_saved_with_it(rng, tmp_path):
    x, y = small_batch(rng)
    model = compiled(small_model(transformer_num=1), metrics=[["accuracy", Perplexity()], ["accuracy"]], max_predictions=4)
    logs = model.evaluate(x, y, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "MLM_loss", "NSP_loss", "MLM_accuracy", "MLM_perplexity", "NSP_accuracy"}
    assert logs["MLM_perplexity"] == pytest.approx(np.exp(logs["MLM_loss"]), rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.evaluate(x, y, verbose=0, return_dict=True) == pytest.approx(logs, rel=1e-6)
