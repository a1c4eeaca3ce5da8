"""Dense vectors: their signs as bits."""

import numpy as np
import pytest

from keras_bert_rebuild.search import dense_storage


@pytest.mark.parametrize("width", [1, 8, 63, 64, 65, 384])
def test_bits_are_the_signs_of_numbers(width):
    vectors = np.random.default_rng(width).normal(size=(5, width)).astype("float32")
    vectors[0] = 0
    bits = dense_storage.to_bits(vectors)
    assert bits.shape == (-(-width // 64), 5)
    np.testing.assert_allclose(dense_storage.from_bits(bits, width), np.where(vectors > 0, 1, -1) / width**0.5, rtol=1e-6)


@pytest.mark.parametrize("count", [dense_storage.count_bits, dense_storage._count_by_table], ids=["numpy", "table"])
def test_the_distance_counts_the_signs_that_differ(count, monkeypatch):
    monkeypatch.setattr(dense_storage, "count_bits", count)
    vectors, query = np.random.default_rng(1).normal(size=(2, 50, 200))[:, :20], None
    vectors, query = vectors[0], vectors[1][:1]
    found = dense_storage.hamming(dense_storage.to_bits(vectors), dense_storage.to_bits(query)[:, 0])
    assert found.tolist() == ((vectors > 0) != (query > 0)).sum(1).tolist()
