"""Masks and sequence numbers: who sees whom, and the first vectors and compared tokens of packed rows."""

import keras
import numpy as np
import pytest
from helpers.kernel_checks import plain
from keras import ops

from keras_bert_rebuild.kernels import bands
from keras_bert_rebuild.layers import ExtractFirsts, MultiHeadSelfAttention, ScoredTokens
from keras_bert_rebuild.layers.masks import (
    begins_of_sequences,
    has_sequences,
    positions_in_sequences,
    slots_with_sequences,
    visible_pairs,
)

pytestmark = pytest.mark.backend

NUMBERS = np.array([[1, 1, 1, 4, 4, 6, 6, 6, 0], [1, 1, 1, 1, 1, 1, 1, 8, 8]], "int32")


def states(*, seed=0):
    generator = np.random.default_rng(seed)
    return [ops.convert_to_tensor(generator.normal(size=(*NUMBERS.shape, 2, 4)).astype("float32")) for _ in range(3)]


def test_positions_begin_again_in_every_sequence():
    found = ops.convert_to_numpy(positions_in_sequences(ops.convert_to_tensor(NUMBERS)))
    np.testing.assert_array_equal(found, [[0, 1, 2, 0, 1, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5, 6, 0, 1]])


def test_every_sequence_begins_once_and_has_a_slot():
    numbers = ops.convert_to_tensor(NUMBERS)
    begins = ops.convert_to_numpy(begins_of_sequences(numbers))
    assert [np.flatnonzero(row).tolist() for row in begins] == [[0, 3, 5], [0, 7]]
    assert ops.convert_to_numpy(slots_with_sequences(numbers, 4)).tolist() == [[True] * 3 + [False], [True] * 2 + [False] * 2]


def test_a_token_sees_its_own_sequence_only():
    pairs = ops.convert_to_numpy(visible_pairs(ops.convert_to_tensor(NUMBERS)))
    np.testing.assert_array_equal(pairs[:, 0], NUMBERS[:, :, None] == NUMBERS[:, None, :])


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_only_whole_numbers_number_sequences(dtype):
    assert has_sequences(ops.convert_to_tensor(NUMBERS))
    assert not has_sequences(ops.cast(ops.convert_to_tensor(NUMBERS), dtype))
    assert not has_sequences(None)


@pytest.mark.parametrize("dropout", [0.0, 1e-9])
def test_attention_is_that_of_the_sequences_apart(dropout):
    query, key, value = states()
    layer = MultiHeadSelfAttention(2, attention_dropout=dropout)
    layer.build((None, None, 8))
    found = layer.attend(query, key, value, ops.convert_to_tensor(NUMBERS), True)
    for row, (first, last) in ((0, (0, 3)), (0, (3, 5)), (0, (5, 8)), (1, (0, 7)), (1, (7, 9))):
        part = [x[row : row + 1, first:last] for x in (query, key, value)]
        alone = layer.attend(*part, ops.ones((1, last - first), "bool"), False)
        np.testing.assert_allclose(ops.convert_to_numpy(found)[row, first:last], ops.convert_to_numpy(alone)[0], atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 2])
def test_bands_and_the_plain_form_agree_on_sequences(window, causal, monkeypatch):
    monkeypatch.setattr(bands, "WINDOWS", 0)
    layer = MultiHeadSelfAttention(2, window=window, history_only=causal)
    tensors = *states(), ops.convert_to_tensor(NUMBERS)
    expected, found = map(ops.convert_to_numpy, (plain(layer.attend, *tensors), layer.attend(*tensors)))
    np.testing.assert_allclose(found[NUMBERS > 0], expected[NUMBERS > 0], atol=1e-6)


# Rows of 16 tokens have two outputs.
ROWS_OF_16 = np.array([[1] * 5 + [6] * 7 + [0] * 4, [1] * 16], "int32")


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_the_outputs_are_the_first_vectors_in_order(policy, rng):
    layer = ExtractFirsts(dtype=policy)
    x = rng.normal(size=(2, 16, 3)).astype("float32")
    y = layer(ops.convert_to_tensor(x), mask=ops.convert_to_tensor(ROWS_OF_16))
    assert keras.backend.standardize_dtype(y.dtype) == layer.compute_dtype
    found, expected = (ops.convert_to_numpy(ops.cast(array, "float32")) for array in (y, ops.cast(x, layer.compute_dtype)))
    np.testing.assert_array_equal(found[0], expected[0, [0, 5]])
    np.testing.assert_array_equal(found[1, 0], expected[1, 0])
    assert ops.convert_to_numpy(y._keras_mask).tolist() == [[True, True], [True, False]]


def test_shapes_are_known_before_there_are_tensors():
    assert ExtractFirsts()(keras.Input((20, 3))).shape == (None, 3, 3)
    assert ExtractFirsts()(keras.Input((None, 3))).shape == (None, None, 3)


def test_gradients_reach_the_first_vectors_alone():
    numbers = ops.convert_to_tensor(ROWS_OF_16)
    weights = ops.convert_to_tensor(np.array([[2.0, 3.0], [4.0, 0.0]], "float32")[..., None])

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.x = self.add_weight(shape=(2, 16, 3), initializer="ones")
            self.firsts = ExtractFirsts()

        def call(self, inputs):
            return ops.sum(self.firsts(self.x + inputs, mask=numbers) * weights, axis=(1, 2))

    model = Model()
    model.compile(keras.optimizers.SGD(1.0), lambda labels, outputs: outputs)
    model.train_on_batch(np.zeros((2, 16, 3), "float32"), np.zeros(2))
    expected = np.ones((2, 16, 3))
    expected[0, 0], expected[0, 5], expected[1, 0] = 1 - 2 / 2, 1 - 3 / 2, 1 - 4 / 2
    np.testing.assert_allclose(ops.convert_to_numpy(model.x), expected, atol=1e-6)


def test_more_sequences_than_outputs_give_nan():
    three = np.where(np.arange(16) < 6, np.arange(16) // 2 * 2 + 1, 0)[None].astype("int32")
    x = ops.ones((1, 16, 3))
    assert np.isnan(ops.convert_to_numpy(ExtractFirsts()(x, mask=ops.convert_to_tensor(three)))).all()
    two = np.where(three == 5, 0, three)
    assert ops.convert_to_numpy(ExtractFirsts()(x, mask=ops.convert_to_tensor(two))).tolist() == np.ones((1, 2, 3)).tolist()


def test_a_mask_without_numbers_is_refused():
    with pytest.raises(ValueError, match="must have sequence numbers as its mask"):
        ExtractFirsts()(ops.ones((1, 16, 3)), mask=ops.ones((1, 16), dtype="bool"))


def test_tokens_that_are_not_compared_have_zeros_and_no_mask_goes_on(rng):
    vectors = rng.normal(size=(2, 3, 4)).astype("float32")
    scored = np.array([[1, 0, 1], [0, 2, 0]])
    layer = ScoredTokens.from_config(ScoredTokens().get_config())
    found = ops.convert_to_numpy(layer([vectors, scored]))
    np.testing.assert_array_equal(found, vectors * (scored != 0)[..., None])
    outputs = layer([keras.Input((None, 4)), keras.Input((None,), dtype="int32")])
    assert outputs.shape == (None, None, 4)
    assert layer.compute_mask([vectors, scored], [scored != 0, None]) is None
