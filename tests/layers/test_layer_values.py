"""The values of the layers, also against enumeration, arithmetic by hand and plain NumPy, with padding on either side."""

import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_bert_rebuild import layers
from keras_bert_rebuild.layers import ConditionalRandomField
from keras_bert_rebuild.layers.conditional_random_field import marginals, viterbi
from keras_bert_rebuild.layers.disentangled_self_attention import rows_of_distances
from keras_bert_rebuild.layers.position_embedding import angles, rotate

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


MASKS = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)


@pytest.mark.parametrize("skip", [0, 1])
def test_pools_are_those_of_the_tokens_alone(rng, skip):
    x = rng.normal(size=(3, 5, 4)).astype("float32")
    inside = layers.WithoutLeadingTokens(skip)(with_mask(x, MASKS))
    root = ops.convert_to_numpy(layers.MaskedSquareRootPool1D()(inside))
    position = ops.convert_to_numpy(layers.MaskedPositionPool1D(first=1 + skip)(inside))
    for row, mask, of_root, of_position in zip(x, MASKS, root, position, strict=True):
        tokens = row[mask][skip:]
        np.testing.assert_allclose(of_root, tokens.sum(0) / len(tokens) ** 0.5, atol=1e-6)
        weights = np.arange(1, mask.sum() + 1)[skip:]
        np.testing.assert_allclose(of_position, np.average(tokens, axis=0, weights=weights), atol=1e-6)


def test_pools_without_a_mask_see_everything_and_of_padding_alone_are_zero(rng):
    x = rng.normal(size=(2, 4, 3)).astype("float32")
    np.testing.assert_allclose(ops.convert_to_numpy(layers.MaskedSquareRootPool1D()(x)), x.sum(1) / 2, atol=1e-6)
    expected = np.average(x, axis=1, weights=[1, 2, 3, 4])
    np.testing.assert_allclose(ops.convert_to_numpy(layers.MaskedPositionPool1D()(x)), expected, atol=1e-6)
    for layer in (layers.MaskedSquareRootPool1D(), layers.MaskedPositionPool1D()):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(with_mask(x, np.zeros((2, 4))))), 0)


def test_settings_out_of_range_are_refused():
    for make, message in (
        (lambda: layers.MaskedPositionPool1D(first=0), "first must be at least 1; got 0"),
        (lambda: layers.WithoutLeadingTokens(-1), "count must be at least 0; got -1"),
        (lambda: layers.FirstFeatures(5)(np.zeros((1, 4), "float32")), "width must be from 1 to 4, .*; got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@settings(max_examples=20)
@given(theta=st.floats(2, 1e6), length=st.sampled_from([1, 2, 40]), half=st.sampled_from([1, 8]))  # shapes are compiled
def test_rotary_heads_equal_a_rotation_of_complex_numbers(theta, length, half):
    x = np.random.default_rng(length).normal(size=(1, length, 2, 2 * half)).astype("float32")
    got = rotate(ops.convert_to_tensor(x), *angles(np.arange(length), 2 * half, theta))
    speeds = theta ** -(np.arange(half) / half)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * np.arange(length)[:, None, None] * speeds)
    np.testing.assert_allclose(numpy(got), np.concatenate([turned.real, turned.imag], -1), atol=1e-4)


def test_layers_of_relative_attention_answer_as_they_say():
    differ = layers.SegmentDifference()(np.array([[0, 1, 0]]))
    assert numpy(differ).tolist() == [[[False, True, False], [True, False, True], [False, True, False]]]
    rows = numpy(layers.DistanceEmbedding(reach=1)(np.zeros((1, 2, 2), "float32")))
    np.testing.assert_allclose(rows, [[np.sin(d), np.cos(d)] for d in (1, 1, 0, -1)], atol=1e-6)
    x, mask = np.arange(8.0).reshape(2, 4, 1), np.array([[True, True, False, False], [False, False, False, False]])
    assert numpy(layers.Extract(-1, skip_padding=True)(x, mask=ops.convert_to_tensor(mask))).tolist() == [[1.0], [7.0]]
    assert numpy(layers.Extract(-1, skip_padding=True)(x)).tolist() == [[3.0], [7.0]]
    with pytest.raises(ValueError, match="reach must be at least 1, or None; got 0"):
        layers.DistanceEmbedding(reach=0)
    with pytest.raises(ValueError, match="the width must be even, half for sines and half for cosines; got 3"):
        layers.DistanceEmbedding()(np.zeros((1, 2, 3), "float32"))


def test_near_distances_have_their_own_rows_and_far_ones_share():
    rows = rows_of_distances(256, 512)
    assert rows[512 - 128 : 512 + 129].tolist() == list(range(128, 385))
    assert (rows[0], rows[-1]) == (0, 511)
    assert (np.diff(rows) >= 0).all()
    assert len(set(rows)) == 512
    assert rows_of_distances(0, 3).tolist() == [0, 1, 2, 3, 4, 5, 5]


def test_wrong_arguments_of_disentangled_attention_are_refused():
    for arguments, said in (
        ({"buckets": 5, "reach": 9}, "position_buckets must be even"),
        ({"buckets": 8, "reach": 5}, "max_relative_positions must be at least 6 with position_buckets=8; got 5"),
        ({"buckets": 8, "reach": 9, "terms": ()}, "terms must be one or both of c2p, p2c; got none"),
        ({"buckets": 8, "reach": 9, "position_dropout": 1.0}, "must be a rate"),
    ):
        with pytest.raises(ValueError, match=said):
            layers.DisentangledSelfAttention(2, **arguments)
    layer = layers.DisentangledSelfAttention(2, buckets=8, reach=20)
    with pytest.raises(ValueError, match="the table of distances must have 16 rows; got 4"):
        layer([np.zeros((1, 3, 4)), np.zeros((4, 4))])


X = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")


def all_scores(scores, own):
    """The score of every sequence, a dictionary."""
    labels = len(own) - 2
    return {
        row: own[labels][row[0]]
        + scores[np.arange(len(row)), row].sum()
        + sum(own[pair] for pair in itertools.pairwise(row))
        + own[labels + 1][row[-1]]
        for row in itertools.product(range(labels), repeat=len(scores))
    }


def test_outputs_are_the_scores_followed_by_the_transitions(rng):
    layer = ConditionalRandomField()
    layer.build((None, None, 3))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    outputs = keras.ops.convert_to_numpy(layer(X))
    assert np.array_equal(outputs[:, :4], X)
    assert np.array_equal(outputs[0, 4:], layer.transitions)
    assert np.array_equal(outputs[1, 4:], layer.transitions)
    assert layer.transitions.shape == (5, 3)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_labels_are_those_of_the_best_of_all_sequences(seed):
    rng = np.random.default_rng(seed)
    scores, own = rng.normal(size=(2, 6, 3)), rng.normal(size=(5, 3)) * 2
    outputs = np.concatenate([scores, np.stack([own, own])], axis=1)
    best = ConditionalRandomField.decode(outputs)
    mask = np.array([[0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 0]])
    masked = ConditionalRandomField.decode(outputs, mask)
    for row in range(2):
        found = all_scores(scores[row], own)
        assert tuple(best[row]) == max(found, key=found.get)
        kept = mask[row] > 0
        found = all_scores(scores[row][kept], own)
        assert tuple(masked[row][kept]) == max(found, key=found.get)
        assert not masked[row][~kept].any()


def test_marginals_equal_sums_over_all_sequences(rng):
    scores, own = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)) * 2
    found = all_scores(scores, own)
    total = np.sum(np.exp(list(found.values())))
    for place, label in np.ndindex(4, 3):
        share = sum(np.exp(score) for row, score in found.items() if row[place] == label) / total
        assert marginals(scores, own)[place, label] == pytest.approx(share)
    assert marginals(np.zeros((0, 3)), own).shape == (0, 3)


def test_forbidden_transitions_do_not_occur():
    own = np.zeros((4, 2))
    own[0, 0] = own[1, 1] = -np.inf
    assert viterbi(np.array([[3.0, 0], [3, 0], [3, 0]]), own).tolist() == [0, 1, 0]
    assert viterbi(np.array([[3.0, 0], [3, 0]]), np.full((4, 2), -np.inf)).tolist() == [0, 0]


def test_wrong_shapes_are_one_sentence():
    with pytest.raises(ValueError, match=r"expected outputs \(batch, length \+ labels \+ 2, labels\); got the shape \(2, 4, 3\)"):
        ConditionalRandomField.decode(X)
    with pytest.raises(ValueError, match=r"expected a mask of shape \(2, 2\); got \(2, 3\)"):
        ConditionalRandomField.decode(np.zeros((2, 7, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="known number of labels"):
        ConditionalRandomField()(keras.Input((4, None)))
