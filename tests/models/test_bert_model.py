"""What `fit` adds to Keras."""

import keras
import pytest
from helpers.small import small_batch
from helpers.small_tasks import small_encoder

from keras_bert_rebuild.models.bert_model import BertModel


@pytest.mark.tensorflow
def test_a_training_step_is_traced_once(rng, monkeypatch):
    """Tracing and compiling is most of the time of a short training."""
    traced = []
    step = BertModel.train_step
    monkeypatch.setattr(BertModel, "train_step", lambda self, *batch: traced.append(batch) or step(self, *batch))
    model = small_encoder(heads=("classification",), labels=("no", "yes"))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids, segments, _ = small_batch(rng)[0]
    model.fit((ids % 20, segments), rng.integers(0, 2, 8), batch_size=4, epochs=2, verbose=0)
    assert len(traced) == 1
