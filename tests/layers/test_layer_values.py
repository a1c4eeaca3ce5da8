"""The values of the layers, against arithmetic by hand."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild import layers

pytestmark = pytest.mark.backend


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def with_mask(x, mask):
    """A tensor that carries a mask, as a layer would give it."""
    return layers.Masked()([ops.convert_to_tensor(x), ops.convert_to_tensor(np.asarray(mask, "int32"))])


def test_gelu_is_googles_tanh_form():
    values = numpy(layers.gelu(np.array([-3.0, -1.0, 0.0, 1.0, 3.0], "float32")))
    np.testing.assert_allclose(values, [-0.00363752, -0.15880796, 0, 0.841192, 2.9963627], atol=1e-6)


@pytest.mark.parametrize("bad", [-1, 7, 1000])
def test_an_id_outside_the_table_gives_nan_and_no_other_row(bad):
    layer = layers.TokenEmbedding(7, 4)
    vectors, table = layer(ops.convert_to_tensor(np.array([[1, bad, 6]])))
    assert np.isnan(numpy(vectors)[0, 1]).all()
    np.testing.assert_array_equal(numpy(vectors)[0, [0, 2]], numpy(table)[[1, 6]])


def test_an_id_outside_the_table_gives_nan_in_a_users_own_compiled_model():
    ids = keras.Input((3,), dtype="int32")
    model = keras.Model(ids, layers.TokenEmbedding(7, 4)(ids)[0])
    for batch in ([[1, -1, 6]], [[1, 7, 6]]):
        assert np.isnan(model.predict(np.array(batch), verbose=0)).any(axis=-1).tolist() == [[False, True, False]]


def test_whole_float_ids_survive_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    layer = layers.TokenEmbedding(40000, 2)
    ids = np.array([[1001.0, 2003.0, 30521.0]], "float32")
    vectors, table = layer(ops.convert_to_tensor(ids))
    expected = numpy(table).astype("float32")[[1001, 2003, 30521]]
    np.testing.assert_array_equal(numpy(vectors).astype("float32")[0], expected)


def test_token_mask_is_the_explicit_one_where_there_is_one():
    ids, mask = np.array([[0, 3]]), np.array([[1, 0]])
    layer = layers.TokenEmbedding(7, 4, mask_zero=True)
    assert numpy(layer.compute_mask(ops.convert_to_tensor(ids))[0]).tolist() == [[False, True]]
    explicit = layer.compute_mask([ops.convert_to_tensor(ids), ops.convert_to_tensor(mask)])
    assert numpy(explicit[0]).tolist() == [[True, False]]
    assert explicit[1] is None


def test_add_keeps_the_conjunction_of_the_masks_that_exist():
    a, b = ops.ones((1, 2, 3)), ops.ones((1, 2, 3))
    m, n = ops.convert_to_tensor([[True, False]]), ops.convert_to_tensor([[True, True]])
    layer = layers.Add()
    assert numpy(layer.compute_mask([a, b], [m, None])).tolist() == [[True, False]]
    assert numpy(layer.compute_mask([a, b], [n, m])).tolist() == [[True, False]]
    assert layer.compute_mask([a, b], [None, None]) is None
    assert layer.compute_mask([a, b]) is None


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


def test_feed_forward_equals_the_formula(rng):
    x = rng.normal(size=(2, 3, 4)).astype("float32")
    layer = layers.FeedForward(6, activation="relu")
    got = numpy(layer(x))
    w1, b1, w2, b2 = (numpy(w) for w in layer.weights)
    np.testing.assert_allclose(got, np.maximum(x @ w1 + b1, 0) @ w2 + b2, atol=1e-6)


def test_layer_normalization_uses_epsilon_1e_12():
    x = np.array([[[1e-3, 3e-3]]], "float32")
    np.testing.assert_allclose(numpy(layers.LayerNormalization()(x)), [[[-1, 1]]], atol=1e-4)
    assert layers.LayerNormalization(epsilon=None).epsilon == 1e-12


def test_layer_normalization_of_a_constant_row_is_finite_in_half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    assert np.isfinite(numpy(layers.LayerNormalization()(np.ones((1, 2, 4), "float32"))).astype("float32")).all()


def test_embedding_similarity_is_a_softmax_over_the_table(rng):
    features, table = rng.normal(size=(2, 3, 4)).astype("float32"), rng.normal(size=(5, 4)).astype("float32")
    layer = layers.EmbeddingSimilarity()
    layer.build([(2, 3, 4), (5, 4)])
    layer.bias.assign(rng.normal(size=5))
    logits = features @ table.T + numpy(layer.bias)
    np.testing.assert_allclose(numpy(layer([features, table], return_logits=True)), logits, atol=1e-5)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(numpy(layer([features, table])), expected, atol=1e-6)


def test_masked_passes_values_and_masks_all_other_positions():
    x = ops.convert_to_tensor(np.arange(12, dtype="float32").reshape(1, 3, 4))
    positions = ops.convert_to_tensor(np.array([[0, 1, 1]]))
    padding = ops.convert_to_tensor([[True, True, False]])
    layer = layers.Masked(return_masked=True)
    values, merged = layer([x, positions], mask=[padding, None])
    np.testing.assert_array_equal(numpy(values), numpy(x))
    assert numpy(merged).tolist() == [[0, 1, 0]]
    assert numpy(layer.compute_mask([x, positions], [padding, None])[0]).tolist() == [[False, True, False]]
    assert numpy(layers.Masked().compute_mask([x, positions])).tolist() == [[False, True, True]]


@pytest.mark.parametrize("index", [0, 2, -1])
def test_extract_is_one_position(index):
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(numpy(layers.Extract(index=index)(x)), x[:, index])


def test_task_embedding_adds_nothing_for_task_zero():
    x = np.ones((2, 3, 4), "float32")
    layer = layers.TaskEmbedding(2, 4, mask_zero=True)
    got = numpy(layer([x, np.array([[0], [1]])]))
    np.testing.assert_array_equal(got[0], x[0])
    np.testing.assert_allclose(got[1], x[1] + numpy(layer.embeddings)[1], rtol=1e-6)


def test_max_pooling_ignores_padding(rng):
    x = rng.normal(size=(2, 4, 3)).astype("float32")
    mask = np.array([[1, 1, 0, 0], [0, 0, 0, 0]])
    got = numpy(layers.MaskedGlobalMaxPool1D()(with_mask(x, mask)))
    np.testing.assert_array_equal(got[0], x[0, :2].max(0))
    np.testing.assert_allclose(got[1], x[1].max(0) - 1e6)


def test_max_pooling_without_a_mask_sees_everything(rng):
    x = rng.normal(size=(2, 4, 3)).astype("float32")
    np.testing.assert_array_equal(numpy(layers.MaskedGlobalMaxPool1D()(x)), x.max(1))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"kernel_size": 3}, [True, False, False]),
        ({"kernel_size": 2}, [True, True, False, False]),
        ({"kernel_size": 3, "strides": 2}, [True, False]),
        ({"kernel_size": 3, "padding": "same"}, [True, True, True, False, False]),
        ({"kernel_size": 3, "padding": "same", "strides": 2}, [True, True, False]),
        ({"kernel_size": 2, "dilation_rate": 2}, [True, False, False]),
    ],
)
def test_masked_convolution_has_a_mask_of_the_length_of_its_output(arguments, expected):
    x = np.ones((1, 5, 2), "float32")
    mask = ops.convert_to_tensor([[True, True, True, False, False]])
    layer = layers.MaskedConv1D(4, **arguments)
    assert numpy(layer.compute_mask(x, mask))[0].tolist() == expected
    assert layer(x, mask=mask).shape[1] == len(expected)


def test_masked_convolution_sees_zeros_at_padding(rng):
    x = rng.normal(size=(1, 5, 2)).astype("float32")
    mask = np.array([[1, 1, 1, 0, 0]])
    layer = layers.MaskedConv1D(4, 3, padding="same")
    got = numpy(layer(with_mask(x, mask)))
    np.testing.assert_allclose(got, numpy(layer(x * mask[..., None].astype("float32"))), atol=1e-6)


def test_position_embedding_adds_the_rows_in_order(rng):
    x = rng.normal(size=(2, 3, 4)).astype("float32")
    layer = layers.PositionEmbedding(6, 4, mode="add")
    np.testing.assert_allclose(numpy(layer(x)), x + numpy(layer.embeddings)[:3], rtol=1e-6)


def test_expanded_positions_are_clipped_and_offset():
    layer = layers.PositionEmbedding(2, 4, mode="expand")
    got = numpy(layer(np.array([[-5, -2, 0, 2, 5]])))
    np.testing.assert_array_equal(got[0], numpy(layer.embeddings)[[0, 0, 2, 4, 4]])


def test_an_unknown_position_mode_is_an_error():
    with pytest.raises(ValueError, match="mode must be one of expand, add, concat; got 'sum'"):
        layers.PositionEmbedding(2, 4, mode="sum")


def test_a_sequence_longer_than_the_position_table_is_an_error_and_one_row_is_not_repeated():
    for rows in (1, 3):
        inputs = keras.Input((None, 4))
        model = keras.Model(inputs, layers.PositionEmbedding(rows, 4, mode="add")(inputs))
        with pytest.raises(Exception, match=r"at most|requested shape|shape"):
            model.predict(np.ones((1, 4, 4), "float32"), verbose=0)


def test_trig_positions_are_sine_and_cosine():
    got = numpy(layers.TrigPosEmbedding()(np.zeros((1, 3, 4), "float32")))[0]
    for position in range(3):
        for channel in range(4):
            angle = position / 10000 ** (2 * (channel // 2) / 4)
            assert got[position, channel] == pytest.approx((np.cos if channel % 2 else np.sin)(angle), abs=1e-6)


def test_trig_positions_given_as_floats_are_not_rounded_in_bfloat16():
    layer = layers.TrigPosEmbedding(mode="expand", output_dim=4, dtype="mixed_bfloat16")
    as_floats, as_ids = (numpy(layer(ops.convert_to_tensor([[257]], dtype=dtype))) for dtype in ("float32", "int32"))
    np.testing.assert_array_equal(as_floats.astype("float32"), as_ids.astype("float32"))


def test_dense_provides_its_logits(rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    layer = layers.Dense(2)
    logits = numpy(layer(x, return_logits=True))
    np.testing.assert_allclose(logits, x @ numpy(layer.kernel), atol=1e-6)
    np.testing.assert_allclose(numpy(layer(x)), np.exp(logits) / np.exp(logits).sum(-1, keepdims=True), atol=1e-6)


def test_rms_normalization_divides_by_the_root_mean_square(rng):
    x = rng.normal(size=(2, 5, 4)).astype("float32")
    outputs = layers.RMSNormalization(epsilon=1e-3)(x)
    np.testing.assert_allclose(numpy(outputs), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3), atol=1e-6)


def test_attention_after_an_rms_norm_sees_no_padding(rng):
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    changed = x.copy()
    changed[:, 3:] += 5
    norm, attention = layers.RMSNormalization(), layers.MultiHeadSelfAttention(2)
    one, two = (numpy(attention(norm(with_mask(each, [[1, 1, 1, 0, 0]]))))[:, :3] for each in (x, changed))
    np.testing.assert_array_equal(one, two)
