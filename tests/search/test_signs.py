"""Binary vectors."""

import numpy as np
import pytest

from keras_bert_rebuild.search import signs


@pytest.mark.parametrize("width", [1, 8, 63, 64, 65, 384])
def test_bits_are_the_signs_of_numbers(width):
    vectors = np.random.default_rng(width).normal(size=(5, width)).astype("float32")
    vectors[0] = 0
    bits = signs.to_bits(vectors)
    assert bits.shape == (-(-width // 64), 5)
    np.testing.assert_allclose(signs.from_bits(bits, width), np.where(vectors > 0, 1, -1) / width**0.5, rtol=1e-6)


@pytest.mark.parametrize("count", [signs.count_bits, signs._count_by_table], ids=["numpy", "table"])
def test_the_distance_counts_the_signs_that_differ(count, monkeypatch):
    monkeypatch.setattr(signs, "count_bits", count)
    vectors, query = np.random.default_rng(1).normal(size=(2, 50, 200))[:, :20], None
    vectors, query = vectors[0], vectors[1][:1]
    found = signs.hamming(signs.to_bits(vectors), signs.to_bits(query)[:, 0])
    assert found.tolist() == ((vectors > 0) != (query > 0)).sum(1).tolist()
