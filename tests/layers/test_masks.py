import numpy as np
import pytest
from helpers.plain_form import plain
from keras import ops

from keras_bert_rebuild.kernels import bands
from keras_bert_rebuild.layers import MultiHeadSelfAttention
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
