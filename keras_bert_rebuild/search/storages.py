"""The storages of an index, by kind of vectors, and the blocks that they read.

A storage encodes the vectors of a block as arrays, scores a block for queries, and scores single rows exactly. Its arrays are files
`block-000000.NAME.npy`.
"""

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.dense_storage import DenseStorage
from keras_bert_rebuild.search.index_files import block_file
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
    modes = storage.RESCORING.get(dtype, ("none",))
    rescoring = rescoring or modes[0]
    if rescoring not in modes:
        raise ValueError(f"rescoring of {vectors} vectors stored as {dtype} must be one of {', '.join(modes)}; got {rescoring!r}.")
    return storage(width, dtype, rescoring)


def storage_of(manifest):
    """The storage of the vectors of an index, from its manifest."""
    described, settings = manifest["settings"]["retriever"], manifest["settings"]
    return storage_for(described["vectors"], described["width"], settings["dtype"], settings["rescoring"])


class LooseBlock(dict):
    """The encoded arrays of a block by name, in memory."""

    def __init__(self, arrays, documents):
        super().__init__(arrays)
        self.documents = documents


class Block:
    """The arrays of a block by name, memory-mapped on first access for the lifetime of this object.

    Args:
        files: the `IndexFiles`.
        number: number of the block.
        first: index of its first document.
        documents: number of documents in it.
        expected: dtype and shape of the arrays by name.
    """

    def __init__(self, files, number, first, documents, expected):
        self._files, self._number, self._expected = files, number, expected
        self.first, self.documents = first, documents
        self.norm = 0.0
        self._opened = {}

    def __getitem__(self, name):
        if name not in self._opened:
            self._opened[name] = self._files.array(block_file(self._number, name), *self._expected[name])
        return self._opened[name]

    def check(self, valid, what):
        """Refuse a block whose arrays are invalid.

        Args:
            valid: whether they are valid.
            what: what was expected, for the error.
        """
        if not valid:
            path = self._files.folder / block_file(self._number, "*")
            raise ValueError(f"expected {what} in {printable(path)}; the index was changed: build it again.")
