"""The storages of an index, by kind of vectors.

A storage encodes the vectors of a block as arrays, scores a block for queries, and scores single rows exactly. Its arrays are files
`block-000000.NAME.npy`.
"""

from keras_bert_rebuild.search.dense_storage import DenseStorage
from keras_bert_rebuild.search.sparse_storage import SparseStorage
from keras_bert_rebuild.search.token_storage import TokenStorage

STORAGES = {"dense": DenseStorage, "sparse": SparseStorage, "tokens": TokenStorage}


def storage_for(vectors, width, dtype=None, rescoring=None):
    """The storage of a kind of vectors.

    Args:
        vectors: "dense", "sparse" or "tokens".
        width: width of a vector, or size of the vocabulary.
        dtype: dtype of the stored vectors, one of `DTYPES` of the class; None for its first.
        rescoring: dtype of a second copy of int8 or binary dense vectors, to rescore candidates; None for "int8" with binary ones
            and no copy with others, "none" for no copy.

    Raises:
        ValueError: a value is unknown, or values contradict each other.
    """
    if vectors not in STORAGES:
        raise ValueError(f"the kind of vectors must be one of {', '.join(STORAGES)}; got {vectors!r}.")
    storage = STORAGES[vectors]
    dtype = dtype or storage.DTYPES[0]
    if dtype not in storage.DTYPES:
        raise ValueError(f"the dtype of {vectors} vectors must be one of {', '.join(storage.DTYPES)}; got {dtype!r}.")
    known = storage.RESCORING.get(dtype, ("none",))
    rescoring = rescoring or known[0]
    if rescoring not in known:
        raise ValueError(f"rescoring of {vectors} vectors stored as {dtype} must be one of {', '.join(known)}; got {rescoring!r}.")
    return storage(width, dtype, rescoring)
