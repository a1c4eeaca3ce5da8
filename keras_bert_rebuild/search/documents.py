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

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.printable import printable

FILES = ("documents.bin", "documents.offsets.npy", "documents.order.npy", "documents.ranks.npy")
_BYTES, _OFFSETS, _ORDER, _RANKS = FILES

# Number of documents that are read at once.
_READ = 1024
# Number of ids whose bytes are gathered at once.
_ROWS = 4096
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
    offsets, ids = array("q", [0]), bytearray()
    with written_file(folder / _BYTES, claimed=True) as file:
        for document in documents:
            for part in document:
                content = part.encode("utf-8", "surrogatepass")
                file.write(content)
                offsets.append(offsets[-1] + len(content))
            ids += document[0].encode("utf-8", "surrogatepass")
            if progress is not None and len(offsets) // 3 % _READ == 0:
                progress(_READ)
    starts = np.frombuffer(offsets, "int64")
    count = len(starts) // 3
    if progress is not None and count % _READ:
        progress(count % _READ)
    if not 1 <= count <= _MOST:
        raise ValueError(f"expected from one to {_MOST:,} documents; the corpus has {count:,}.")
    order = _order_of_ids(np.frombuffer(ids or b"\0", "uint8"), (starts[1::3] - starts[:-1:3]).astype("uint32"))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(count, dtype="uint32")
    for name, values in ((_OFFSETS, starts), (_ORDER, order), (_RANKS, ranks)):
        with written_file(folder / name, claimed=True) as file:
            np.save(file, values, allow_pickle=False)
    return count


def _order_of_ids(content, lengths):
    """The indices of the documents sorted by id; UTF-8 bytes sort as characters do.

    A radix sort, eight bytes at a time from the last to the first, so that memory and time depend on the bytes of all ids together.

    Args:
        content: the bytes of all ids, one after another.
        lengths: the number of bytes of each id.
    """
    ends = np.cumsum(lengths, dtype="int64")
    by_length = np.argsort(lengths, kind="stable").astype("uint32")
    chunks = range(0, int(lengths.max()), 8)
    # Ids take part from their last bytes on; shorter ones are before longer ones that begin with them.
    limits = np.searchsorted(lengths[by_length], [0, *(chunk + 8 for chunk in chunks)], "right")
    order = by_length[:0]
    for number, chunk in reversed([*enumerate(chunks)]):
        order = np.concatenate([by_length[limits[number] : limits[number + 1]], order])
        order = order[np.argsort(_eight_bytes(content, ends, lengths, order, chunk), kind="stable")]
    order = np.concatenate([by_length[: limits[0]], order])
    twice = np.flatnonzero(lengths[order[1:]] == lengths[order[:-1]])
    for chunk in chunks:
        one, other = (_eight_bytes(content, ends, lengths, rows[twice], chunk) for rows in (order[:-1], order[1:]))
        twice = twice[one == other]
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        name = printable(content[ends[first] - lengths[first] : ends[first]].tobytes().decode("utf-8", "replace"))
        raise ValueError(f"expected every id once; documents {first + 1:,} and {second + 1:,} of the corpus have {name!r}.")
    return order


def _eight_bytes(content, ends, lengths, rows, first):
    """Eight bytes of the ids of documents from a byte on, as uint64 that sort as they do; 0 after the end of an id."""
    result = np.zeros(len(rows), "uint64")
    for begin in range(0, len(rows), _ROWS):
        part = rows[begin : begin + _ROWS]
        at = (ends[part] - lengths[part] + first)[:, None] + np.arange(8)
        inside = at < ends[part][:, None]
        piece = np.where(inside, content[np.where(inside, at, 0)], 0).astype("uint8")
        result[begin : begin + _ROWS] = piece.view(">u8")[:, 0]
    return result


class DocumentStore:
    """The documents of an index.

    Args:
        files: the `IndexFiles` of the index.
        count: number of documents.

    Raises:
        ValueError: a file was changed, has another number of values, or has invalid ones.
    """

    def __init__(self, files, count):
        self._files = files
        self._count = count
        self._offsets = files.array(_OFFSETS, "int64", (3 * count + 1,))
        self._order = files.array(_ORDER, "uint32", (count,))
        self.ranks = files.array(_RANKS, "uint32", (count,))
        ascends = self._offsets[0] == 0 and (np.diff(self._offsets) >= 0).all() and self._offsets[-1] == files.size(_BYTES)
        if not ascends or max(self._order.max(), self.ranks.max()) >= count:
            raise ValueError(
                f"expected ascending offsets and indices of {count:,} documents; {printable(files.folder)} has changed: rebuild it."
            )

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
        with self._files.open(_BYTES) as file:
            file.seek(offsets[0])
            content = file.read(offsets[-1] - offsets[0])
        texts = [self._text(content[begin - offsets[0] : end - offsets[0]]) for begin, end in itertools.pairwise(offsets)]
        for i in range(0, len(texts), 3):
            yield Document(*texts[i : i + 3])

    def id(self, row):
        """The id of a document by its index."""
        return self._text(self._id_bytes(row))

    def row(self, name):
        """The index of a document by its id; None if there is none."""
        wanted = name.encode("utf-8", "surrogatepass")
        at = bisect.bisect_left(range(self._count), wanted, key=lambda i: self._id_bytes(self._order[i]))
        exists = at < self._count and self._id_bytes(self._order[at]) == wanted
        return int(self._order[at]) if exists else None

    def _id_bytes(self, row):
        begin, end = self._offsets[3 * row : 3 * row + 2]
        return bytes(self._content[begin:end])

    def _text(self, content):
        try:
            return content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            path = self._files.folder / _BYTES
            raise ValueError(f"expected texts in UTF-8; {printable(path)} was changed: build the index again.") from None

    @functools.cached_property
    def _content(self):
        with self._files.open(_BYTES) as file:
            return np.memmap(file, "uint8", "r") if self._offsets[-1] else np.zeros(0, "uint8")
