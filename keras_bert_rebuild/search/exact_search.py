"""Exact search over the blocks of an index, for several queries at once."""

import numpy as np

from keras_bert_rebuild.search.best import Best
from keras_bert_rebuild.search.dense_storage import rounding

# Candidates that are found in addition to those that may be needed, so that ties are rarely searched for again.
_SPARE = 16


def search_blocks(blocks, storage, queries, top_k, ranks, rescore, engine=None):
    """The best documents for queries.

    The last bits of matrix products depend on the shapes of the matrices, but equal documents must have equal scores in all blocks.
    So candidates are scored again, exactly: all whose score differs from the last that is needed by no more than rounding does. If
    there may be more of them than were retained, as among thousands of equal documents, the blocks are searched for them again.

    Args:
        blocks: a function that yields the `Block`s of the index.
        storage: the storage of their vectors.
        queries: vectors from `storage.queries`.
        top_k: maximum number of documents per query.
        ranks: a tie-breaking rank of every document, `(documents,)`; higher ones come first.
        rescore: number of candidates from compressed vectors to score exactly, as a multiple of `top_k`.
        engine: what `faiss_candidates` returns; None to search the blocks.

    Returns:
        A list with a pair of arrays for every query: the indices of its documents and their scores, best first.
    """
    needed = max(top_k * rescore, top_k + _SPARE) if storage.rescored > 1 else top_k
    retained = min(needed if storage.EXACT else needed + _SPARE, len(ranks))
    if engine is None:
        score, best, norm = storage.score, Best(len(queries), retained, ranks), 0.0
        for block in blocks():
            best.add(score(block, queries), block.first)
            norm = max(norm, block.norm)
        found = best.found()
        if storage.EXACT:
            return found
        margins = storage.margins(queries, norm)
    else:
        find, norm = engine
        found, score = find(queries, retained), lambda block, queries: queries @ storage.decode(block).T
        margins = rounding(storage.width) * np.linalg.norm(queries, axis=1) * norm
    if margins is None:  # equal documents have equal scores, so the candidates are those of the highest ranks
        return search_rows(blocks, storage, queries, [rows for rows, _ in found], top_k, ranks)
    last = [scores[needed - 1] if len(scores) > needed else -np.inf for _, scores in found]
    limits = np.subtract(last, margins).astype("float32")
    candidates = [rows[scores >= limit] for (rows, scores), limit in zip(found, limits, strict=True)]
    result = search_rows(blocks, storage, queries, candidates, top_k, ranks)
    more = [i for i, rows in enumerate(candidates) if len(rows) == retained < len(ranks)]
    if more:
        best = Best(len(more), top_k, ranks)
        some = storage.queries([queries[i] for i in more])
        for block in blocks():
            owners, rows = np.nonzero(score(block, some) >= limits[more, None])
            _add_exact(best, storage, block, some, owners, rows)
        for i, pair in zip(more, best.found(), strict=True):
            result[i] = pair
    return result


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
        if len(inside):
            _add_exact(best, storage, block, queries, owners[inside], flat[inside] - block.first)
    return best.found()


def _add_exact(best, storage, block, queries, owners, rows):
    """Score rows of a block for the queries of these indices and add them to the best."""
    scores = np.empty(len(rows), "float32")
    for query in np.unique(owners):
        of_query = np.flatnonzero(owners == query)
        scores[of_query] = storage.rescore(block, queries[query], rows[of_query])
    known = scores > -np.inf
    best.add_rows(owners[known], rows[known] + block.first, scores[known])
