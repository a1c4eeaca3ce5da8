"""Attention: its formula, dropout, masks, windows and rotary positions."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild import layers
from keras_bert_rebuild.layers import MultiHeadSelfAttention
from keras_bert_rebuild.layers.disentangled_self_attention import rows_of_distances

pytestmark = pytest.mark.backend


def test_a_mask_with_three_axes_is_refused_and_not_taken_for_a_mask_of_heads(rng):
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    with pytest.raises(ValueError, match=r"\(batch, 1, length, length\); got shape \(2, 5, 5\)"):
        MultiHeadSelfAttention(2)(x, mask=np.ones((2, 5, 5), bool))


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def with_mask(x, mask):
    """A tensor that carries a mask, as a layer would give it."""
    return layers.Masked()([ops.convert_to_tensor(x), ops.convert_to_tensor(np.asarray(mask, "int32"))])


def test_attention_equals_the_formula(rng):
    from helpers.reference import attention

    x = rng.normal(size=(2, 5, 8))
    layer = layers.MultiHeadSelfAttention(2, name="attention")
    layer.build((None, 5, 8))
    for variable in layer.weights:
        variable.assign(rng.normal(size=variable.shape))
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    weights = {v.path: numpy(v).astype("float64") for v in layer.weights}
    got = numpy(layer(ops.convert_to_tensor(x, "float32"), mask=ops.convert_to_tensor(mask)))
    np.testing.assert_allclose(got, attention(x, weights, "attention", 2, mask), atol=2e-5)


def test_attention_without_a_mask_attends_to_everything(rng):
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    layer = layers.MultiHeadSelfAttention(2)
    all_true = ops.ones((2, 5), "bool")
    np.testing.assert_array_equal(numpy(layer(x)), numpy(layer(x, mask=all_true)))


def test_history_only_attention_does_not_see_later_positions(rng):
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    layer = layers.MultiHeadSelfAttention(2, history_only=True)
    changed = x.copy()
    changed[:, 3:] += 1
    np.testing.assert_allclose(numpy(layer(x))[:, :3], numpy(layer(changed))[:, :3], atol=1e-6)
    assert np.abs(numpy(layer(x))[:, 3:] - numpy(layer(changed))[:, 3:]).max() > 1e-3


@pytest.mark.slow
def test_attention_with_dropout_is_right_on_average(rng):
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    layer = layers.MultiHeadSelfAttention(2, attention_dropout=0.3, history_only=True)
    mask = ops.convert_to_tensor([[True, True, True, True, False]])
    expected = numpy(layer(x, mask=mask, training=False))
    many = np.repeat(x, 20_000, axis=0)
    drawn = numpy(layer(many, mask=ops.repeat(mask, 20_000, axis=0), training=True)).mean(0)
    assert np.abs(drawn - expected[0]).max() < 0.03
    assert np.abs(numpy(layer(x, mask=mask, training=True)) - expected).max() > 1e-3


def test_the_four_projections_start_with_different_weights():
    layer = layers.MultiHeadSelfAttention(2)
    layer.build((None, 5, 8))
    kernels = [numpy(w) for w in layer.weights if w.path.endswith("kernel")]
    assert len(kernels) == 4
    assert len({kernel.tobytes() for kernel in kernels}) == 4


def test_heads_that_do_not_divide_the_width_are_an_index_error():
    with pytest.raises(IndexError, match="Invalid head number 3 with the given input dim 8"):
        layers.MultiHeadSelfAttention(3).build((None, 5, 8))


def test_attention_after_an_rms_norm_sees_no_padding(rng):
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    changed = x.copy()
    changed[:, 3:] += 5
    norm, attention = layers.RMSNormalization(), layers.MultiHeadSelfAttention(2)
    one, two = (numpy(attention(norm(with_mask(each, [[1, 1, 1, 0, 0]]))))[:, :3] for each in (x, changed))
    np.testing.assert_array_equal(one, two)


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


@pytest.mark.parametrize("share_keys", [False, True])
@pytest.mark.parametrize("terms", [("c2p", "p2c"), ("c2p",), ("p2c",)], ids="+".join)
def test_disentangled_attention_is_the_sum_of_its_terms_score_by_score(terms, share_keys, rng):
    layer = layers.DisentangledSelfAttention(2, buckets=4, reach=4, terms=terms, share_keys=share_keys, name="a")
    x, table, mask = rng.normal(size=(2, 7, 8)), rng.normal(size=(8, 8)), np.arange(7) < np.array([[7], [4]])
    layer.build([x.shape, table.shape])
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    w = {v.path: numpy(v).astype("float64") for v in layer.weights}

    def projected(values, part):
        return (values @ w[f"a/{part}/kernel"] + w[f"a/{part}/bias"]).reshape(*values.shape[:-1], 2, 4)

    query, key, value = (projected(x, part) for part in ("query", "key", "value"))
    rows, scores = rows_of_distances(4, 4), np.zeros((2, 2, 7, 7))
    for i, j in np.ndindex(7, 7):
        row, total = table[rows[np.clip(i - j, -4, 4) + 4]], query[:, i] * key[:, j]
        if "c2p" in terms:
            total = total + query[:, i] * projected(row, "key" if share_keys else "position_key")
        if "p2c" in terms:
            total = total + key[:, j] * projected(row, "query" if share_keys else "position_query")
        scores[:, :, i, j] = total.sum(-1) / np.sqrt((1 + len(terms)) * 4)
    p = np.where(mask[:, None, None], np.exp(scores - scores.max(-1, keepdims=True)), 0)
    mixed = np.einsum("bhij,bjhk->bihk", p / p.sum(-1, keepdims=True), value).reshape(2, 7, 8)
    inputs = [ops.convert_to_tensor(array, "float32") for array in (x, table)]
    got = numpy(layer(inputs, mask=ops.convert_to_tensor(mask)))
    np.testing.assert_allclose(got, mixed @ w["a/output/kernel"] + w["a/output/bias"], atol=1e-4)
