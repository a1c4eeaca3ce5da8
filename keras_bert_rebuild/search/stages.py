"""Search in several stages: several rankings are fused, or what one finds is scored by another model."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search.retrievers import Scorer

# The constant of reciprocal rank fusion: without it, the first documents of one ranking would outweigh all others.
RANK_OFFSET = 60


class Hit(NamedTuple):
    """A document that a search found."""

    id: str | int
    """The id of the document."""

    score: float
    """Its relevance to the query: higher is better."""


def fused(rankings: Sequence[Sequence[Any]], top_k: int) -> list[Hit]:
    """Reciprocal rank fusion: the best documents of several rankings by the sum of 1 / (60 + rank).

    Scores of different models cannot be added, since their scales differ; ranks can.

    Args:
        rankings: ids of documents, each best first.
        top_k: maximum number of documents.

    Returns:
        Documents and their sums, best first; of equal ones the last id is first.

    Reference: Cormack, Clarke and Büttcher, 2009, section 2 (https://doi.org/10.1145/1571941.1572114).
    """
    sums: dict[Any, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, 1):
            sums[name] = sums.get(name, 0.0) + 1 / (RANK_OFFSET + rank)
    return best_hits(sums, top_k)


def best_hits(scores: dict[Any, float], top_k: int) -> list[Hit]:
    """The best of some documents, of equal ones the last id first.

    Args:
        scores: their scores by id.
        top_k: maximum number of documents.
    """
    ranked = sorted(scores.items(), key=lambda each: (np.float32(each[1]), each[0]), reverse=True)
    return [Hit(name, float(np.float32(score))) for name, score in ranked[:top_k]]


def reranked(queries: Sequence[str], found: Sequence[Sequence[Document]], reranker: Scorer, top_k: int) -> list[list[Hit]]:
    """The best of the found documents by the scores of a reranker.

    Args:
        queries: texts.
        found: for every query the documents that were found.
        reranker: a `Scorer`; it scores the pairs of all queries in one call, so that its batches are full, and equal pairs once, so
            that their scores are equal.
        top_k: maximum number of documents per query.
    """
    pairs = [(query, document.full_text) for query, part in zip(queries, found, strict=True) for document in part]
    distinct = dict(zip(dict.fromkeys(pairs), itertools.count(), strict=False))
    scores = np.asarray(reranker.scores_of([*distinct]) if pairs else [], "float32")
    of_pairs = iter([float(scores[distinct[pair]]) for pair in pairs])
    return [best_hits({document.id: next(of_pairs) for document in part}, top_k) for part in found]
