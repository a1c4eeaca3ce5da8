"""Exact search in the blocks of an index, for several queries at once."""

import numpy as np

from keras_bert_rebuild.search.best import Best

# Candidates beyond those asked for that are scored again, since products of matrices differ in their last bits with their shapes:
# equal documents shall have equal scores, whatever block they are in.
_SPARE = 16


def search_blocks(blocks, storage, queries, top_k, ranks, rescore, coarse=None):
    """The best documents for queries.

    Args:
        blocks: a function that yields the `Block`s of the index.
        storage: the storage of their vectors.
        queries: vectors as `storage.queries` returns them.
        top_k: documents of a query, at most.
        ranks: the rank of every document among those of equal score, `(documents,)`; higher ones are first.
        rescore: candidates found in compressed vectors, as a multiple of `top_k`, which are scored exactly.
        coarse: a function of queries and a number that finds that many candidates in its own way: their numbers for each query.

    Returns:
        For every query the numbers of its documents and their scores, best first: a list of pairs of arrays.
    """
    count = len(ranks)
    wanted = top_k if storage.EXACT else max(top_k * rescore, top_k + _SPARE) if storage.compressed else top_k + _SPARE
    if coarse is None:
        best = Best(len(queries), min(wanted, count), ranks)
        for block in blocks():
            best.add(storage.score(block, queries), block.first)
        found = best.found()
        if storage.EXACT:
            return found
        candidates = [rows for rows, _ in found]
    else:
        candidates = coarse(queries, min(wanted, count))
    return search_rows(blocks, storage, queries, candidates, top_k, ranks)


def search_rows(blocks, storage, queries, candidates, top_k, ranks):
    """The best documents for queries among candidates.

    Args:
        blocks, storage, queries, top_k, ranks: as for `search_blocks`.
        candidates: for every query the numbers of documents, an array.

    Returns:
        As `search_blocks`.
    """
    best = Best(len(queries), top_k, ranks)
    owners = np.repeat(np.arange(len(queries)), [len(rows) for rows in candidates])
    flat = np.concatenate([np.asarray(rows, "int64") for rows in candidates])
    # In the order of the files, and within a block by query.
    for block in blocks():
        inside = np.flatnonzero((flat >= block.first) & (flat < block.first + block.documents))
        if not len(inside):
            continue
        scores = np.empty(len(inside), "float32")
        for query in np.unique(owners[inside]):
            of_query = np.flatnonzero(owners[inside] == query)
            scores[of_query] = storage.rescore(block, queries[query], flat[inside[of_query]] - block.first)
        known = scores > -np.inf
        best.add_rows(owners[inside][known], flat[inside][known], scores[known])
    return best.found()
