"""Exact search over the blocks of an index, for several queries at once."""

import numpy as np

from keras_bert_rebuild.search.best import Best

# Number of spare candidates that are rescored: the last bits of matrix products depend on the shapes of the matrices, but equal
# documents must have equal scores in all blocks.
_SPARE = 16


def search_blocks(blocks, storage, queries, top_k, ranks, rescore, coarse=None):
    """The best documents for queries.

    Args:
        blocks: a function that yields the `Block`s of the index.
        storage: the storage of their vectors.
        queries: vectors from `storage.queries`.
        top_k: maximum number of documents per query.
        ranks: a tie-breaking rank of every document, `(documents,)`; higher ones come first.
        rescore: number of candidates from compressed vectors to score exactly, as a multiple of `top_k`.
        coarse: a function of queries and a number that finds this number of candidates, and returns their indices for each query;
            None to search the blocks.

    Returns:
        A list with a pair of arrays for every query: the indices of its documents and their scores, best first.
    """
    count = len(ranks)
    wanted = top_k if storage.EXACT else max(top_k * rescore, top_k + _SPARE) if storage.rescored > 1 else top_k + _SPARE
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
        candidates: for every query an array with the indices of documents.

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
