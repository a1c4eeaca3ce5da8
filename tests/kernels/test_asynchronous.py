"""A prediction in two halves gives what Keras's own gives, in float32."""

import keras
import numpy as np
import pytest
from helpers.small_tasks import small_encoder

from keras_bert_rebuild.kernels.asynchronous import dispatched, fetched


@pytest.fixture
def rows(rng):
    ids = rng.integers(5, 20, (3, 9)).astype("int32")
    return ids, ids * 0


def test_the_outputs_are_those_of_predict_on_batch(rows):
    model = small_encoder()
    first, second = dispatched(model, rows), dispatched(model, [array[:2] for array in rows])
    expected = model.predict_on_batch(rows)
    for got, wanted in zip(fetched(first), expected, strict=True):
        np.testing.assert_allclose(got, keras.ops.convert_to_numpy(wanted), atol=1e-6)
    for got, wanted in zip(fetched(second), expected, strict=True):
        np.testing.assert_allclose(got, keras.ops.convert_to_numpy(wanted)[:2], atol=1e-6)


def test_later_weights_give_later_answers(rows):
    model = small_encoder(())
    before = fetched(dispatched(model, rows))
    kernel = next(variable for variable in model.weights if variable.path.endswith("query/kernel"))
    kernel.assign(-kernel)
    assert np.abs(fetched(dispatched(model, rows)) - before).max() > 1e-3


def test_outputs_of_half_precision_are_fetched_in_float32(rows):
    keras.config.set_dtype_policy("mixed_bfloat16")
    outputs = fetched(dispatched(small_encoder(()), rows))
    assert outputs.dtype == np.float32
    assert np.isfinite(outputs).all()
