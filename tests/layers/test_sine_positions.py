"""Windows and rotary positions in attention, with dropout and without."""

import keras
import numpy as np
import pytest

from keras_bert_rebuild.layers import MultiHeadSelfAttention

pytestmark = pytest.mark.backend


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_tokens_outside_of_the_window_change_nothing(rng, causal, training):
    layer = MultiHeadSelfAttention(2, window=2, rotary_theta=100.0, attention_dropout=0.3, history_only=causal)
    x = rng.normal(size=(2, 9, 8)).astype("float32")
    changed = x + 3 * (np.arange(9) >= 6)[:, None]
    mask = keras.ops.convert_to_tensor(np.arange(9) < np.array([[9], [7]]))
    layer.build(x.shape)
    state = keras.ops.convert_to_numpy(layer.dropout.seed_generator.state.value).copy()
    answers = []
    for values in (x, changed.astype("float32")):
        keras.utils.set_random_seed(1)  # torch draws from its own generator
        layer.dropout.seed_generator.state.assign(state)
        answer = layer(keras.ops.convert_to_tensor(values), mask=mask, training=training)
        answers.append(keras.ops.convert_to_numpy(keras.ops.stop_gradient(answer)))
    moved = np.abs(answers[0] - answers[1]).max((0, 2))
    seen_from = 6 if causal else 4
    assert not moved[:seen_from].any()
    assert (moved[6:] > 0).all()
