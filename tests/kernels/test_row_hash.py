"""The random bits of dropout on JAX and TensorFlow: a hash of two words for each row."""

import importlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild.kernels.row_hash import gain_of, threshold
from keras_bert_rebuild.layers import Dropout

BACKEND = keras.config.backend()
pytestmark = pytest.mark.backend("jax", "tensorflow")


def of_backend(name):
    return getattr(importlib.import_module(f"keras_bert_rebuild.kernels.{BACKEND}_dropout"), name)


def words_of(shape, *seed):
    return of_backend("row_words")(shape, ops.convert_to_tensor(np.array(seed, "uint32")))


def kept(words, columns, rate):
    found = of_backend("kept")(words, columns, rate)
    return np.asarray(found[0] if BACKEND == "jax" else found)


def bits(shape, rate, *seed):
    return kept(words_of(shape, *seed), shape[-1], rate)


@pytest.mark.parametrize("rate", [1e-9, 0.1, 0.5, 1 - 1e-12])
def test_the_bits_are_those_of_the_hash_in_integers_of_python(rate):
    words = np.asarray(words_of((3, 5, 40), 3, 1))

    def retained(step, start, column):
        x = (start + column * step) % 2**32
        x = ((x ^ x >> 16) * 0x7FEB352D) % 2**32
        x = ((x ^ x >> 15) * 0x846CA68B) % 2**32
        return x >= rate * 2**32

    pairs = [[int(word) for word in pair] for pair in words.reshape(2, -1).T]
    expected = np.reshape([[retained(*pair, column) for column in range(40)] for pair in pairs], (3, 5, 40))
    np.testing.assert_array_equal(kept(words, 40, rate), expected)
    assert (words[0] % 2 == 1).all()
    assert gain_of(0.5) == 2
    assert threshold(1e-12) == 0
    assert gain_of(1e-12) == 1


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_bits_are_kept_at_the_rate_in_every_row_and_column(rate):
    keep = bits((512, 512), rate, 3, 0)
    deviation = (rate * (1 - rate)) ** 0.5
    assert keep.mean() == pytest.approx(1 - rate, abs=4 * deviation / 512)
    for axis in (0, 1):
        # The means of rows and of columns spread as those of independent numbers do.
        assert keep.mean(axis).std() == pytest.approx(deviation / 512**0.5, rel=0.15)


def test_neighbours_rows_and_steps_are_not_correlated():
    one, other, rerun = (bits((400, 500), 0.5, 3, step) * 2.0 - 1 for step in (0, 1, 0))
    np.testing.assert_array_equal(one, rerun)
    limit = 4 / one.size**0.5
    for a, b in ((one, other), (one[:-1], one[1:]), (one[:, :-1], one[:, 1:]), (one[:, :-128], one[:, 128:])):
        assert abs((a * b).mean()) < limit
    assert abs((one * (bits((400, 500), 0.5, 4, 0) * 2.0 - 1)).mean()) < limit


def test_bits_deviate_from_independent_ones_by_no_more_than_chance():
    """Products of two and three bits, columns and rows apart, and the spread of the sums of rows and of columns."""
    rate, found = 0.1, []
    spread = (rate * (1 - rate)) ** 0.5
    for seed in range(4):
        numbers = (bits((1000, 512), rate, seed, 1) - (1 - rate)) / spread
        for apart in (1, 2, 3, 4, 8, 16, 32, 64, 128, 256):
            for product in (numbers[:, apart:] * numbers[:, :-apart], numbers[apart:] * numbers[:-apart]):
                found.append(product.sum() / product.size**0.5)
        for product in (numbers, numbers[:, 2:] * numbers[:, 1:-1] * numbers[:, :-2]):
            found.append(product.sum() / product.size**0.5)
        for axis in (0, 1):
            sums = numbers.sum(axis) / numbers.shape[axis] ** 0.5
            found.append((sums.var() - 1) * (len(sums) / 2) ** 0.5)
    assert np.abs(found).max() < 4
    assert np.std(found) == pytest.approx(1, abs=0.3)
    assert np.mean(found) == pytest.approx(0, abs=0.4)


def test_a_part_of_a_batch_has_the_bits_of_the_whole():
    """So a device can compute those of its own examples."""
    whole, part = words_of((8, 4, 16), 3, 0), words_of((8, 4, 16), 3, 0)[:, 2:4]
    np.testing.assert_array_equal(kept(whole, 16, 0.3)[2:4], kept(part, 16, 0.3))


def test_every_call_draws_other_numbers_and_advances_the_seed_as_keras_does():
    x, layer, keras_seeds = np.ones((64, 64), "float32"), Dropout(0.5, seed=3), keras.random.SeedGenerator(3)
    one, other = (np.asarray(layer.drop(x)) for _ in range(2))
    assert 0.4 < (one != other).mean() < 0.6
    for _ in range(2):
        keras.random.dropout(x, 0.5, seed=keras_seeds)
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), keras_seeds.state.numpy())
