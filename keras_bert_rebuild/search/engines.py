"""Optional search engines of other packages that find the candidates of a search."""

import numpy as np

ENGINES = ("numpy", "faiss")


def faiss_candidates(blocks, storage, width):
    """Load the vectors of an index into a flat faiss index in memory.

    Args:
        blocks: a function that yields the `Block`s of the index.
        storage: the storage of dense vectors.
        width: width of a vector.

    Returns:
        A function of queries `(queries, width)` and a number n that returns n rows for each query: `(queries, n)`.

    Raises:
        ValueError: faiss is not installed.

    Reference: Douze et al., 2024 (https://arxiv.org/abs/2401.08281).
    """
    try:
        import faiss
    except ModuleNotFoundError:
        raise ValueError("the engine faiss needs the package faiss-cpu, which is not installed: pip install faiss-cpu.") from None
    flat = faiss.IndexFlatIP(width)
    for block in blocks():
        flat.add(np.ascontiguousarray(storage.decode(block)))

    def candidates(queries, count):
        rows = flat.search(np.ascontiguousarray(queries), count)[1]
        return [each[each >= 0] for each in rows]

    return candidates
