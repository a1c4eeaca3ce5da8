"""MaxSim over stored token vectors, against a loop."""

import itertools

import numpy as np
import pytest

from keras_bert_rebuild.data import max_sim as module
from keras_bert_rebuild.data.max_sim import max_sim, stored_vectors


def corpus(rng, documents=30, width=8):
    """Random unit vectors of documents of 0 to 9 tokens, and where each begins."""
    sizes = rng.integers(0, 10, documents)
    vectors = rng.normal(size=(sizes.sum(), width)).astype("float32")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.concatenate([[0], np.cumsum(sizes)])


def by_loop(query, vectors, starts):
    scores = []
    for begin, end in itertools.pairwise(starts):
        scores.append(sum(max(float(q @ v) for v in vectors[begin:end]) for q in query) if end > begin else -np.inf)
    return np.array(scores)


def test_the_score_is_that_of_a_loop_whatever_the_blocks(rng, monkeypatch):
    vectors, starts = corpus(rng)
    query = rng.normal(size=(5, 8)).astype("float32")
    expected = by_loop(query, vectors, starts)
    for rows in (1, 7, 1000):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", rows)
        np.testing.assert_allclose(max_sim(query, vectors, starts), expected, atol=1e-5)


def test_candidates_have_the_scores_of_all_documents_in_their_own_order(rng):
    vectors, starts = corpus(rng)
    query = rng.normal(size=(3, 8)).astype("float32")
    chosen = rng.permutation(30)[:12]
    np.testing.assert_allclose(
        max_sim(query, vectors, starts, documents=chosen), max_sim(query, vectors, starts)[chosen], atol=1e-6
    )
    assert max_sim(query, vectors, starts, documents=[]).shape == (0,)


@pytest.mark.parametrize(("dtype", "error"), [("float32", 0), ("float16", 1e-3), ("int8", 4e-3)])
def test_stored_vectors_are_the_vectors_to_the_precision_of_their_dtype(rng, dtype, error):
    vectors, starts = corpus(rng)
    stored, scales = stored_vectors(vectors, dtype)
    assert stored.dtype == dtype
    again = stored.astype("float32") * (1 if scales is None else scales[:, None])
    assert np.abs(again - vectors).max() <= error
    query = vectors[:4]
    whole, found = max_sim(query, vectors, starts), max_sim(query, stored, starts, scales)
    filled = np.isfinite(whole)
    assert np.array_equal(filled, np.isfinite(found))
    assert np.abs(whole[filled] - found[filled]).max() <= 4 * 8**0.5 * error


def test_a_vector_of_zeros_stays_one():
    codes, scales = stored_vectors(np.zeros((2, 3)), "int8")
    assert not codes.any()
    assert not scales.any()


def test_bad_input_is_one_sentence(rng):
    with pytest.raises(ValueError, match="must be stored as float32, float16, int8; got 'int4'"):
        stored_vectors([[1.0]], "int4")
    with pytest.raises(ValueError, match=r"must be \(tokens, 8\), like those of the documents; got \(2, 4\)"):
        max_sim(rng.normal(size=(2, 4)), *corpus(rng))
