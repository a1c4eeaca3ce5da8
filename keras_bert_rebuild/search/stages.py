"""Multi-stage search: one model finds candidates and another scores them, or the rankings of several models are fused."""

import itertools

import numpy as np

from keras_bert_rebuild.files.printable import printable

# The constant of reciprocal rank fusion: without it, the first documents of one index would outweigh all others.
RANK_OFFSET = 60


def rows_found_by(index, other, queries, depth, rescore, engine):
    """The documents that another index finds, by their indices in this one.

    Args:
        index: the index whose indices are returned.
        other: the index that finds them.
        queries: texts.
        depth: maximum number of documents per query.
        rescore, engine: see `Index.search`; the engine is for dense vectors.

    Returns:
        For every query an array of indices, best first.

    Raises:
        ValueError: this index lacks one of the documents.
    """
    engine = engine if other.vectors == "dense" else "numpy"
    found = other.search_vectors(other.retriever.queries(queries), depth, rescore=rescore, engine=engine)
    rows = []
    for numbers, _ in found:
        names = [other.documents.id(number) for number in numbers.tolist()]
        own = [index.documents.row(name) for name in names]
        if None in own:
            raise ValueError(
                f"expected another index of the same documents; {printable(index.path)} has no "
                f"{printable(names[own.index(None)])!r} of {printable(other.path)}."
            )
        rows.append(np.array(own, "int64"))
    return rows


def reranked(index, queries, rows, reranker, top_k):
    """The best of the found documents by the scores of a reranker.

    Args:
        index: the index.
        queries: texts.
        rows: for every query the indices of the documents that were found.
        reranker: a `Scorer`; it scores the pairs of all queries in one call, so that its batches are full, and equal pairs once, so
            that their scores are equal.
        top_k: maximum number of documents per query.

    Returns:
        For every query the indices of its documents and their scores, best first.
    """
    pairs = [(query, index.documents[row].full_text) for query, found in zip(queries, rows, strict=True) for row in found.tolist()]
    distinct = dict(zip(dict.fromkeys(pairs), itertools.count(), strict=False))
    scores = np.asarray(reranker.scores_of([*distinct]) if pairs else [], "float32")
    scores = scores[np.array([distinct[pair] for pair in pairs], "int64")]
    result = []
    for found, own in zip(rows, np.split(scores, np.cumsum([len(found) for found in rows])[:-1]), strict=True):
        order = np.lexsort((-index.documents.ranks[found].astype("int64"), -own))[:top_k]
        result.append((found[order], own[order]))
    return result


def fused(index, rankings, top_k):
    """Reciprocal rank fusion: the best documents of several rankings by the sum of 1 / (60 + rank).

    Scores of different models cannot be added, since their scales differ; ranks can.

    Args:
        index: the index whose indices the rankings contain.
        rankings: for every model a list with an array of indices for every query, best first.
        top_k: maximum number of documents per query.

    Returns:
        For every query the indices of its documents and their sums, best first.

    Reference: Cormack, Clarke and Büttcher, 2009, section 2 (https://doi.org/10.1145/1571941.1572114).
    """
    result = []
    for of_query in zip(*rankings, strict=True):
        gains = np.concatenate([1 / (RANK_OFFSET + np.arange(1, len(found) + 1)) for found in of_query])
        rows, places = np.unique(np.concatenate(of_query), return_inverse=True)
        scores = np.bincount(places, gains, len(rows)).astype("float32")
        order = np.lexsort((-index.documents.ranks[rows].astype("int64"), -scores))[:top_k]
        result.append((rows[order], scores[order]))
    return result
