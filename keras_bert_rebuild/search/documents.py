"""Ids, titles and texts of the documents of an index, on disk.

    documents.bin           id, title and text of every document, concatenated, in UTF-8
    documents.offsets.npy   offsets of each of them, and last the size of the file, int64, `(3 · documents + 1,)`
    documents.order.npy     indices of the documents sorted by id, uint32
    documents.ranks.npy     the position of each document in that order, uint32: ties are ranked by id

The file is read on demand and not cached, so that memory does not grow with the corpus.
"""

import bisect
import functools
import itertools
from array import array

import numpy as np

from keras_bert_rebuild.data.retrieval.corpora import Document
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.printable import printable

FILES = ("documents.bin", "documents.offsets.npy", "documents.order.npy", "documents.ranks.npy")
_BYTES, _OFFSETS, _ORDER, _RANKS = FILES

# Number of documents that are read at once.
_READ = 1024
# Indices of documents have four bytes.
_MOST = 2**32 - 1


def write_documents(folder, documents, progress=None):
    """Write the files of documents and return how many there are.

    Args:
        folder: the folder, whose lock is held.
        documents: an iterable of `Document`.
        progress: called with the number of documents written since its last call; or None.

    Raises:
        ValueError: there is no document, or an id occurs twice.
    """
    offsets, longest = array("q", [0]), 1
    with written_file(folder / _BYTES, claimed=True) as file:
        for document in documents:
            for part in document:
                content = part.encode("utf-8", "surrogatepass")
                file.write(content)
                offsets.append(offsets[-1] + len(content))
            longest = max(longest, offsets[-3] - offsets[-4])
            if progress is not None and len(offsets) // 3 % _READ == 0:
                progress(_READ)
    starts = np.frombuffer(offsets, "int64")
    count = len(starts) // 3
    if progress is not None and count % _READ:
        progress(count % _READ)
    if not 1 <= count <= _MOST:
        raise ValueError(f"expected from one to {_MOST:,} documents; the corpus has {count:,}.")
    order = _order_of_ids(folder / _BYTES, starts, longest)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(count, dtype="uint32")
    for name, values in ((_OFFSETS, starts), (_ORDER, order), (_RANKS, ranks)):
        with written_file(folder / name, claimed=True) as file:
            np.save(file, values, allow_pickle=False)
    return count


def _order_of_ids(path, starts, longest):
    """The indices of the documents sorted by id; UTF-8 bytes sort as characters do."""
    count = len(starts) // 3
    ids = np.empty(count, f"S{longest}")
    with open(path, "rb") as file:
        for row in range(count):
            file.seek(starts[3 * row])
            ids[row] = file.read(starts[3 * row + 1] - starts[3 * row])
    order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        name = printable(ids[first].decode("utf-8", "replace"))
        raise ValueError(f"expected every id once; documents {first + 1:,} and {second + 1:,} of the corpus have {name!r}.")
    return order.astype("uint32")


class DocumentStore:
    """The documents of an index.

    Args:
        folder: the folder of the index.
        count: number of documents.

    Raises:
        ValueError: a file is missing, has another number of values, or has invalid ones.
    """

    def __init__(self, folder, count):
        self._path = folder / _BYTES
        self._count = count
        self._offsets = open_array(folder / _OFFSETS, "int64", (3 * count + 1,))
        self._order = open_array(folder / _ORDER, "uint32", (count,))
        self.ranks = open_array(folder / _RANKS, "uint32", (count,))
        ascends = self._offsets[0] == 0 and (np.diff(self._offsets) >= 0).all()
        if not ascends or max(self._order.max(), self.ranks.max()) >= count:
            raise ValueError(f"expected ascending offsets and indices of {count:,} documents; {folder} has changed: rebuild it.")
        if not self._path.is_file() or self._path.stat().st_size != self._offsets[-1]:
            raise ValueError(f"expected {self._offsets[-1]:,} bytes of texts; {self._path} is missing or has another size.")

    def __len__(self):
        return self._count

    def __getitem__(self, row):
        return next(self.span(row, row + 1))

    def __iter__(self):
        for first in range(0, self._count, _READ):
            yield from self.span(first, min(first + _READ, self._count))

    def span(self, start, stop):
        """Yield documents with consecutive indices, which are read at once."""
        offsets = self._offsets[3 * start : 3 * stop + 1].tolist()
        content = np.fromfile(self._path, "uint8", offsets[-1] - offsets[0], offset=offsets[0]).tobytes()
        texts = [
            content[begin - offsets[0] : end - offsets[0]].decode("utf-8", "surrogatepass")
            for begin, end in itertools.pairwise(offsets)
        ]
        for i in range(0, len(texts), 3):
            yield Document(*texts[i : i + 3])

    def id(self, row):
        """The id of a document by its index."""
        return self._id_bytes(row).decode("utf-8", "surrogatepass")

    def row(self, name):
        """The index of a document by its id; None if there is none."""
        wanted = name.encode("utf-8", "surrogatepass")
        at = bisect.bisect_left(range(self._count), wanted, key=lambda i: self._id_bytes(self._order[i]))
        found = at < self._count and self._id_bytes(self._order[at]) == wanted
        return int(self._order[at]) if found else None

    def _id_bytes(self, row):
        begin, end = self._offsets[3 * row : 3 * row + 2]
        return bytes(self._content[begin:end])

    @functools.cached_property
    def _content(self):
        return np.memmap(self._path, "uint8", "r")


def open_array(path, dtype, shape):
    """The memory-mapped array in a file.

    Args:
        path: a `.npy` file.
        dtype: its dtype.
        shape: its shape, with None for sizes that may be any.

    Raises:
        ValueError: the file is missing, damaged or has another dtype or shape.
    """
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, TypeError, OverflowError, MemoryError, SyntaxError) as error:
        raise ValueError(f"expected a file of the index; {path} is missing or damaged: {printable(error)}.") from None
    fits = found.dtype == dtype and found.ndim == len(shape)
    fits = fits and all(size in (None, given) for size, given in zip(shape, found.shape, strict=True))
    if not fits:
        raise ValueError(f"expected an array of dtype {dtype} and shape {shape}; {path} has {found.dtype} and {found.shape}.")
    return np.asarray(found)
