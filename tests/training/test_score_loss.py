"""MaxSim for training, against a loop, and in the losses of groups."""

import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild.data.max_sim import max_sim
from keras_bert_rebuild.training.retrieval_losses import GroupedLoss, InBatchNegativesLoss, MarginLoss
from keras_bert_rebuild.training.score_loss import similarity_of


def token_vectors(rng, texts, tokens=6, width=4):
    """Random vectors `(texts, tokens, width)`; a random number of the last tokens is zeros, never all."""
    vectors = rng.normal(size=(texts, tokens, width)).astype("float32")
    for row in vectors:
        row[rng.integers(2, tokens + 1) :] = 0
    return vectors


def by_search(queries, texts):
    """The scores of the form for a search, of the tokens that are not zeros."""
    kept = [text[np.abs(text).max(axis=1) > 0] for text in texts]
    starts = np.cumsum([0, *map(len, kept)])
    return np.stack([max_sim(query[np.abs(query).max(axis=1) > 0], np.concatenate(kept), starts) for query in queries])


def test_scores_are_those_of_a_search_whatever_the_padding(rng):
    queries, texts = token_vectors(rng, 3), token_vectors(rng, 5)
    similarity = similarity_of("max_sim")
    every = ops.convert_to_numpy(similarity.every(ops.convert_to_tensor(queries), ops.convert_to_tensor(texts)))
    np.testing.assert_allclose(every, by_search(queries, texts), atol=1e-5)
    longer = np.concatenate([texts, np.zeros((5, 3, 4), "float32")], axis=1)
    again = ops.convert_to_numpy(similarity.every(ops.convert_to_tensor(queries), ops.convert_to_tensor(longer)))
    np.testing.assert_allclose(every, again, atol=1e-6)
    own = ops.convert_to_numpy(similarity.own(ops.convert_to_tensor(queries), ops.convert_to_tensor(np.stack([texts] * 3))))
    np.testing.assert_allclose(own, every, atol=1e-5)
    short = queries.copy()
    short[:, 2:] = 0
    cut = similarity_of("max_sim@2").every(ops.convert_to_tensor(queries), ops.convert_to_tensor(texts))
    np.testing.assert_allclose(ops.convert_to_numpy(cut), by_search(short, texts), atol=1e-5)
    with pytest.raises(ValueError, match="similarity must be one of"):
        similarity_of("max_sim@x")


@pytest.mark.slow
def test_losses_of_groups_take_the_scores_of_consecutive_rows(rng):
    vectors = token_vectors(rng, 6)  # two groups of a query, a positive and a negative
    labels = np.array([[0, 0], [1, 3.0], [2, 1.0], [3, 0], [4, 2.0], [5, -1.0]], "float32")
    scores = by_search(vectors[[0, 3]], vectors[[1, 2, 4, 5]])
    value = lambda loss: float(GroupedLoss(loss, 3)(ops.convert_to_tensor(labels), ops.convert_to_tensor(vectors)))  # noqa: E731
    margins = np.array([scores[0, 0] - scores[0, 1] - 2.0, scores[1, 2] - scores[1, 3] - 3.0])
    assert value(MarginLoss(similarity="max_sim")) == pytest.approx(np.mean(margins**2), rel=1e-4)
    found = np.log(np.exp(scores).sum(axis=1)) - scores[[0, 1], [0, 2]]
    assert value(InBatchNegativesLoss(1.0, symmetric=False, similarity="max_sim")) == pytest.approx(found.mean(), rel=1e-4)
    again = GroupedLoss.from_config(GroupedLoss(MarginLoss(similarity="max_sim@3"), 3).get_config())
    assert (again.texts, again.loss.similarity) == (3, "max_sim@3")
