"""MinHash: shingles are those of plain Python, signatures agree as often as texts are similar, bands find what they promise."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.min_hash import (
    band_keys,
    band_shape,
    continuations,
    passage_hashes,
    share_a_band,
    shingles,
    signatures,
    similarity_of,
    word_counts,
)

VOCABULARY = ["a", "b", "##c", "##d", "e"]
CONTINUES = continuations(VOCABULARY)
PASSAGES = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=6)


def words_of(passage):
    """Words as tuples of ids; a passage may begin with a piece."""
    words = []
    for i, token in enumerate(passage):
        if i and CONTINUES[token]:
            words[-1] = (*words[-1], token)
        else:
            words.append((token,))
    return words


def plain_shingles(passage):
    words = words_of(passage)
    return {tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))}


def flat(passages):
    return np.concatenate(passages).astype("int32"), np.cumsum([0, *map(len, passages)])


@given(PASSAGES)
def test_shingles_are_equal_where_runs_of_three_words_are(passages):
    ids, starts = flat(passages)
    assert word_counts(ids, starts, CONTINUES).tolist() == [len(words_of(passage)) for passage in passages]
    hashes, begins = shingles(ids, starts, CONTINUES)
    sets = [np.unique(hashes[a:b]) for a, b in pairwise(begins)]
    plain = [plain_shingles(passage) for passage in passages]
    for i, one in enumerate(plain):
        for j, other in enumerate(plain):
            assert similarity_of(sets[i], sets[j]) == len(one & other) / len(one | other)


@given(PASSAGES)
def test_hashes_of_passages_are_equal_where_ids_are(passages):
    hashes = passage_hashes(*flat(passages)).tolist()
    distinct = {tuple(passage) for passage in passages}
    assert len(set(hashes)) == len(distinct) == len(set(zip(hashes, map(tuple, passages), strict=True)))


@pytest.mark.parametrize("similarity", [0.3, 0.6, 0.9])
def test_signatures_agree_as_often_as_texts_are_similar(similarity):
    rng = np.random.default_rng(0)
    agreed, values, size = 0, 64, 200
    both = round(2 * size * similarity / (1 + similarity))
    for _ in range(100):
        hashes = rng.integers(0, 1 << 63, 2 * size - both, dtype="uint64")
        pair = np.concatenate([hashes[:size], hashes[size - both :]])
        first, second = signatures(pair, np.array([0, size, 2 * size]), values)
        agreed += (first == second).sum()
    true = both / (2 * size - both)
    assert abs(agreed / (100 * values) - true) < 4 * math.sqrt(true * (1 - true) / (100 * values))


@pytest.mark.parametrize("similarity", [0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.99])
def test_a_pair_at_the_threshold_shares_a_band_with_99_percent(similarity):
    bands, rows = band_shape(similarity)
    assert bands * rows <= 128
    assert share_a_band(similarity, bands, rows) >= 0.99
    assert share_a_band(similarity / 2, bands, rows) < 0.5


def test_keys_of_bands_are_equal_where_all_rows_are():
    rng = np.random.default_rng(1)
    signature = rng.integers(0, 2, (300, 12)).astype("uint32")
    keys = band_keys(signature, 4, 3)
    for band in range(4):
        rows = [tuple(row) for row in signature[:, 3 * band : 3 * band + 3]]
        assert len({*zip(rows, keys[band].tolist(), strict=True)}) == len(set(rows)) == len(set(keys[band].tolist()))
