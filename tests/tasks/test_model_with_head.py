"""The encoder that a fresh head is put on."""

import keras
import numpy as np
import pytest
from small_tasks import small_encoder

from keras_bert_rebuild import add_lora
from keras_bert_rebuild.tasks.model_with_head import model_with_head

IDS = np.array([[2, 5, 6, 8, 3]])


def pooled(model):
    below = keras.Model(model.inputs, model.get_layer("NSP-Dense").output)
    return keras.ops.convert_to_numpy(below([IDS, IDS * 0]))


def test_low_rank_matrices_of_the_encoder_are_added_to_its_kernels(rng):
    encoder = small_encoder()
    before = pooled(encoder)
    add_lora(encoder, rank=2)
    for variable in encoder.weights:
        if "lora_kernel" in variable.path:
            variable.assign(rng.normal(0, 0.3, variable.shape).astype("float32"))
    model = model_with_head(encoder, ("classification",), ("a", "b"))
    assert np.abs(pooled(model) - before).max() > 0.01
    np.testing.assert_allclose(pooled(model), pooled(encoder), atol=1e-5)
    assert [path for path, _ in model.load_report.missing] == ["Classification/kernel", "Classification/bias"]


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method:UserWarning")
def test_a_quantised_encoder_is_refused():
    encoder = small_encoder()
    encoder.quantize("int8")
    with pytest.raises(ValueError, match=r"must have weights that are not quantised; .* is of type int8"):
        model_with_head(encoder, ("classification",), ("a", "b"))
