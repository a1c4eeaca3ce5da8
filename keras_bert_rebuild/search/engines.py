"""Optional search engines of other packages that find the candidates of a search."""

import numpy as np

from keras_bert_rebuild.files.printable import printable

ENGINES = ("numpy", "faiss")


def check_engine(engine, vectors, path):
    """Refuse an engine.

    Args:
        engine: its name.
        vectors: the kind of vectors of the index.
        path: the folder of the index, for the error.

    Raises:
        ValueError: it is unknown, or does not search such vectors.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; got {engine!r}.")
    if engine != "numpy" and vectors != "dense":
        raise ValueError(f"the engine {engine} needs dense vectors; {printable(path)} has {vectors} ones.")


def faiss_candidates(blocks, storage, width):
    """Load the vectors of an index into a flat faiss index in memory.

    Args:
        blocks: a function that yields the `Block`s of the index.
        storage: the storage of dense vectors.
        width: width of a vector.

    Returns:
        A function of queries `(queries, width)` and a number n that returns the n best rows and their scores for each query; and
        the norm of the longest vector.

    Raises:
        ValueError: faiss is not installed.

    Reference: Douze et al., 2024 (https://arxiv.org/abs/2401.08281).
    """
    try:
        import faiss
    except ModuleNotFoundError:
        raise ValueError("the engine faiss needs the package faiss-cpu, which is not installed: pip install faiss-cpu.") from None
    flat = faiss.IndexFlatIP(width)
    norm = 0.0
    for block in blocks():
        flat.add(np.ascontiguousarray(storage.decode(block)))
        norm = max(norm, block.norm)

    def candidates(queries, count):
        found = zip(*flat.search(np.ascontiguousarray(queries), count), strict=True)
        return [(rows[rows >= 0], scores[rows >= 0]) for scores, rows in found]

    return candidates, norm
