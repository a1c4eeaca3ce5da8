"""Searches in two stages: one model finds candidates, another scores them."""

import numpy as np

from keras_bert_rebuild.files.printable import printable


def rows_of_candidates(index, candidates, queries, depth, rescore, engine):
    """The documents that another index finds, by their numbers in this one.

    Args:
        index: the index that is to score them.
        candidates: the index that finds them.
        queries: texts.
        depth: documents of a query, at most.
        rescore, engine: see `Index.search`.

    Returns:
        For every query an array of numbers.

    Raises:
        ValueError: this index lacks one of the documents.
    """
    found = candidates.search_vectors(candidates.retriever.queries(queries), depth, rescore=rescore, engine=engine)
    rows = []
    for numbers, _ in found:
        names = [candidates.documents.id(number) for number in numbers.tolist()]
        own = [index.documents.row(name) for name in names]
        if None in own:
            raise ValueError(
                f"expected candidates from an index of the same documents; {printable(index.path)} has no "
                f"{printable(names[own.index(None)])!r} of {printable(candidates.path)}."
            )
        rows.append(np.array(own, "int64"))
    return rows


def reranked(index, queries, rows, reranker, top_k):
    """The best of the documents that were found, by the scores of a reranker.

    Args:
        index: the index.
        queries: texts.
        rows: for every query the numbers of the documents that were found for it.
        reranker: a `Scorer`; it scores the pairs of all queries in one call, so that its batches are full.
        top_k: documents of a query, at most.

    Returns:
        For every query the numbers of its documents and their scores, best first.
    """
    pairs = [(query, index.documents[row].full_text) for query, found in zip(queries, rows, strict=True) for row in found.tolist()]
    scores = np.asarray(reranker.scores_of(pairs) if pairs else [], "float32")
    result = []
    for found, own in zip(rows, np.split(scores, np.cumsum([len(found) for found in rows])[:-1]), strict=True):
        order = np.lexsort((-index.documents.ranks[found].astype("int64"), -own))[:top_k]
        result.append((found[order], own[order]))
    return result
