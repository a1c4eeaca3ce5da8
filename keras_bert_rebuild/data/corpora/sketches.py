"""Sketches of the texts of a token store, by which they are compared: hashes, numbers of words and bands, on disk, shard by shard.

shard-000000.passages.npy    for every passage the hash of its ids, its number of words and the keys of its bands, uint64
                             `(2 + bands, passages)`
shard-000000.documents.npy   the signatures of the documents, or of the parts of documents in the shard, uint32 `(parts, values)`
"""

from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.corpora.min_hash import (
    band_keys,
    continuations,
    passage_hashes,
    shingles,
    signatures,
    word_counts,
)
from keras_bert_rebuild.data.corpora.store_files import shard_file
from keras_bert_rebuild.files.durable import written_file

# Tokens processed at a time, few enough to stay in the processor's cache.
_SLICE = 1 << 16


def make_sketcher(tokens, folder, vocabulary, shape):
    """Make a function that sketches a shard.

    Args:
        tokens: the folder of a token store.
        folder: the folder to write to.
        vocabulary: its tokens in the order of their ids.
        shape: `(bands, rows)` of the signatures; `(0, 0)` for hashes only.

    Returns:
        A function that takes and returns the number of a shard. Existing files are kept.
    """
    tokens, folder, continues = Path(tokens), Path(folder), continuations(vocabulary)

    def sketch(number):
        paths = [folder / shard_file(number, kind) for kind in ("passages", "documents")]
        if not all(path.exists() for path in paths):
            for path, array in zip(paths, _sketched(*shard_arrays(tokens, number), continues, shape), strict=True):
                with written_file(path, claimed=True) as file:
                    np.save(file, array, allow_pickle=False)
        return number

    return sketch


def shard_arrays(folder, number):
    """The ids of a shard, memory-mapped, and the offsets of its passages and documents."""
    return [
        np.load(folder / shard_file(number, kind), mmap_mode="r" if kind == "ids" else None)
        for kind in ("ids", "passages", "documents")
    ]


def _sketched(ids, passages, documents, continues, shape):
    parts = np.union1d([0], documents)[:-1] if len(ids) else documents[:0]
    part_of = np.searchsorted(parts, passages[:-1], side="right") - 1
    of_passages = np.empty((2 + shape[0], len(part_of)), "uint64")
    of_parts = np.full((len(parts) if shape[0] else 0, shape[0] * shape[1]), np.iinfo("uint32").max, "uint32")
    first = 0
    while first < len(part_of):
        stop = max(int(np.searchsorted(passages, passages[first] + _SLICE, side="right")) - 1, first + 1)
        starts = passages[first : stop + 1] - passages[first]
        some = np.asarray(ids[passages[first] : passages[stop]])
        of_passages[0, first:stop] = passage_hashes(some, starts)
        of_passages[1, first:stop] = word_counts(some, starts, continues)
        if shape[0]:
            signature = signatures(*shingles(some, starts, continues), shape[0] * shape[1])
            of_passages[2:, first:stop] = band_keys(signature, *shape)
            which, begins = np.unique(part_of[first:stop], return_index=True)
            of_parts[which] = np.minimum(of_parts[which], np.minimum.reduceat(signature, begins))
        first = stop
    return of_passages, of_parts


class Sketches:
    """The sketches of all shards of a store.

    Args:
        folder: the folder with their files.
        store: the `TokenStore`.
        shape: `(bands, rows)`.
    """

    def __init__(self, folder, store, shape):
        self._folder, self._store, self._shape = Path(folder), store, shape

    def hashes(self):
        """The hash of every passage, uint64 `(passages,)`."""
        return self._of_passages(0)

    def words(self):
        """The number of words of every passage, uint64 `(passages,)`."""
        return self._of_passages(1)

    @property
    def passage_bands(self):
        """For every band the keys of all passages; one band is in memory at a time."""
        return _EachTime(lambda: (self._of_passages(2 + band) for band in range(self._shape[0])))

    @property
    def document_bands(self):
        """For every band the keys of all documents, whose parts are first combined, shard by shard."""
        path, starts = self._folder / "documents.npy", np.asarray(self._store.document_starts)
        bands = np.lib.format.open_memmap(path, mode="w+", dtype="uint64", shape=(self._shape[0], len(starts) - 1))
        last, left = -1, None
        for number, first, count in self._store.shards():
            signature = np.load(self._folder / shard_file(number, "documents"))
            inside = starts[np.searchsorted(starts, first) : np.searchsorted(starts, first + count)]
            documents = np.searchsorted(starts, np.union1d([first], inside), side="right") - 1
            if documents[0] == last:
                signature[0] = np.minimum(signature[0], left)
            # A document that continues in the next shard is written again there.
            bands[:, documents] = band_keys(signature, *self._shape)
            last, left = documents[-1], signature[-1]
        return bands

    def _of_passages(self, row):
        paths = (self._folder / shard_file(number, "passages") for number, _, _ in self._store.shards())
        return np.concatenate([np.load(path, mmap_mode="r")[row] for path in paths])


class SketchesOfSeveral:
    """The sketches of several stores, whose texts are numbered consecutively.

    Args:
        sketches: the `Sketches` of each.
    """

    def __init__(self, sketches):
        self._sketches = sketches

    def hashes(self):
        """See `Sketches.hashes`."""
        return np.concatenate([each.hashes() for each in self._sketches])

    def words(self):
        """See `Sketches.words`."""
        return np.concatenate([each.words() for each in self._sketches])

    @property
    def passage_bands(self):
        """See `Sketches.passage_bands`."""
        return self._together([each.passage_bands for each in self._sketches])

    @property
    def document_bands(self):
        """See `Sketches.document_bands`."""
        return self._together([each.document_bands for each in self._sketches])

    def _together(self, bands):
        return _EachTime(lambda: map(np.concatenate, zip(*bands, strict=True)))


class _EachTime:
    """An iterable that starts over each time it is iterated."""

    def __init__(self, make):
        self._make = make

    def __iter__(self):
        return self._make()
