"""What the blocks of an index are made of, for each kind of vectors and each way to store them.

A storage turns the vectors of a block into arrays, scores a block for queries, and scores single rows exactly. Its arrays are files
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
        width: numbers in a vector, or tokens in the vocabulary.
        dtype: how they are stored, one of `DTYPES` of the class; None for its first.
        rescoring: how dense vectors stored as int8 or binary are stored a second time, to score what was found; None for "int8"
            beside binary ones and nothing beside others, "none" for nothing.

    Raises:
        ValueError: a value is unknown, or does not fit the others.
    """
    if vectors not in STORAGES:
        raise ValueError(f"expected vectors that are {', '.join(STORAGES)}; got {vectors!r}.")
    storage = STORAGES[vectors]
    dtype = dtype or storage.DTYPES[0]
    if dtype not in storage.DTYPES:
        raise ValueError(f"{vectors} vectors are stored as one of {', '.join(storage.DTYPES)}; got {dtype!r}.")
    known = storage.RESCORING.get(dtype, ("none",))
    rescoring = rescoring or known[0]
    if rescoring not in known:
        raise ValueError(f"{vectors} vectors stored as {dtype} can have rescoring {', '.join(known)}; got {rescoring!r}.")
    return storage(width, dtype, rescoring)
