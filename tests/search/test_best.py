"""The best rows of every query, found block by block."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.search.best import Best


@given(st.data())
def test_the_best_do_not_depend_on_the_blocks(data):
    queries, rows, top_k = (data.draw(st.integers(1, most)) for most in (4, 40, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    scores = rng.integers(0, 4, (queries, rows)).astype("float32")  # many are equal
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    ranks = rng.permutation(rows).astype("uint32")
    best = Best(queries, top_k, ranks)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=5)))
    for first, last in zip([0, *cuts], [*cuts, rows], strict=True):
        best.add(scores[:, first:last], first)
    for own, (found, values) in zip(scores, best.found(), strict=True):
        expected = sorted((row for row in range(rows) if own[row] > -np.inf), key=lambda row: (own[row], ranks[row]), reverse=True)
        assert found.tolist() == expected[:top_k]
        assert values.tolist() == own[found].tolist()
