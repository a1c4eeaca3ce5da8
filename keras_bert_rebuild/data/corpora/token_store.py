"""Token ids on disk, memory-mapped."""

import functools
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.corpora.store_files import read_indexes, sha256_of, shard_file
from keras_bert_rebuild.files.durable import mapped_array
from keras_bert_rebuild.files.reading import read_text


def span_indexes(starts, positions):
    """The index of the span that contains each position.

    Most rows of positions lie within one span: then only their minimum and maximum are searched for.

    Args:
        starts: where spans start, ascending; the first is at most the smallest position.
        positions: integers `(...)`.

    Returns:
        Integers that broadcast to the shape of `positions`: `(...)`, or `(rows, 1)` if every row of positions `(rows, columns)` is
        within one span.
    """
    if positions.ndim == 2 and positions.size:
        first, last = (np.searchsorted(starts, ends, side="right") - 1 for ends in (positions.min(axis=1), positions.max(axis=1)))
        divided = np.flatnonzero(first < last)
        if not len(divided):
            return first[:, None]
        indexes = np.repeat(first[:, None], positions.shape[1], axis=1)
        indexes[divided] = np.searchsorted(starts, positions[divided], side="right") - 1
        return indexes
    return np.searchsorted(starts, positions, side="right") - 1


def checked_positions(positions: npt.ArrayLike, num_tokens: int) -> npt.NDArray[Any]:
    """Positions of tokens as an array.

    Raises:
        IndexError: one is not in `[0, num_tokens)`.
    """
    positions = np.asarray(positions)
    if positions.size and (positions.min() < 0 or positions.max() >= num_tokens):
        raise IndexError(f"positions must be in [0, {num_tokens}); got {positions.min()} to {positions.max()}.")
    return positions


# An open memory map takes a file descriptor, and processes often have only 1,024.
_MAPS_OPEN = 512


class TokenStore:
    """A folder written by `keras-bert prepare`: a corpus as token ids, memory-mapped, so that only what is read takes memory.

    Args:
        path: the folder.

    Attributes:
        num_tokens: number of token ids.
        vocabulary: the tokens in the order of their ids.
        cased: whether the ids preserve case and accents.
        sha256: identifies the store: a digest of the SHA-256 of its files and its vocabulary, recorded by `prepare`.

    Raises:
        ValueError: the folder is incomplete, or the size of a file or the vocabulary changed since they were written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        settings, records = read_indexes(self.path)
        self._files = {name: file for record in records for name, file in record["files"].items()}
        self.cased = settings["cased"]
        checksums = [settings["vocabulary"]["sha256"], *(f"{name} {file['sha256']}" for name, file in sorted(self._files.items()))]
        self.sha256 = hashlib.sha256("\n".join(checksums).encode()).hexdigest()
        self._dtype = np.dtype(settings["dtype"])
        for name, file in self._files.items():
            _check_size(self.path / name, file["bytes"])
        self.vocabulary = _read_vocabulary(self.path / "vocab.txt", settings["vocabulary"]["sha256"])
        self._all_records = records
        # Shards without tokens are skipped: an empty file cannot be mapped.
        self._records = [record for record in records if record["tokens"]]
        if not self._records:
            raise ValueError(f"expected tokens to train on; {self.path} has none.")
        self._starts = np.cumsum([0, *(record["tokens"] for record in self._records)])
        self.num_tokens = int(self._starts[-1])
        self._maps: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()

    def ids_at(self, positions: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Token ids.

        Args:
            positions: integers in `[0, num_tokens)`, of any shape.

        Returns:
            An int32 array of the same shape.
        """
        positions = checked_positions(positions, self.num_tokens)
        if len(self._records) == 1:
            return self._ids(0)[positions].astype("int32")
        if not positions.size:
            return np.zeros(positions.shape, "int32")
        shards = span_indexes(self._starts, positions)
        # Positions in one shard are read together: single ones, or whole rows.
        wanted = positions.reshape(shards.size, -1)
        result = np.empty(wanted.shape, "int32")
        order = np.argsort(shards, axis=None, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(shards.ravel()[order])) + 1):
            shard = shards.flat[group[0]]
            result[group] = self._ids(shard)[wanted[group] - self._starts[shard]]
        return result.reshape(positions.shape)

    def shards(self, empty: bool = False) -> Iterator[tuple[int, int, int]]:
        """Yield, for every shard, its number, the position of its first token and its number of tokens.

        Args:
            empty: include shards without tokens.
        """
        first = 0
        for record in self._all_records:
            if empty or record["tokens"]:
                yield record["number"], first, record["tokens"]
            first += record["tokens"]

    @functools.cached_property
    def passage_starts(self) -> npt.NDArray[np.int64]:
        """Offset of every passage, and last the number of tokens: int64, `(passages + 1,)`, ascending."""
        return self._joined("passages", self._checked_passages)

    @functools.cached_property
    def document_starts(self) -> npt.NDArray[np.int64]:
        """Offset of every document, and last the number of tokens: int64, `(documents + 1,)`, ascending."""
        # A shard begins with the rest of a document of the previous shard, or with a new document. If the previous shard has no
        # tokens, it is unknown which document the rest belongs to: it becomes a document.
        numbers = [record["number"] for record in self._records]
        restarts = [0, *(i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1)]
        starts = np.union1d(self._joined("documents", self._checked_documents), self._starts[restarts])
        passages = self.passage_starts
        if not np.array_equal(passages[np.searchsorted(passages, starts)], starts):
            raise ValueError(f"expected documents that begin at a passage; some in {self.path} do not: it was changed.")
        return starts

    def verify(self) -> None:
        """Compare the SHA-256 of every file with the recorded one, about 0.5 GB per second; `pretrain` does so at every start.

        Raises:
            ValueError: a file was changed, or passages or documents do not partition the tokens.
        """
        for name, file in self._files.items():
            if sha256_of(self.path / name) != file["sha256"]:
                raise ValueError(f"expected the bytes that `keras-bert prepare` wrote; {self.path / name} was changed.")
        # The index may have been changed together with a file.
        _ = self.document_starts
        for shard in range(len(self._records)):
            ids = self._ids(shard)
            if ids.min() < 0 or ids.max() >= len(self.vocabulary):
                raise ValueError(f"expected ids below the vocabulary size of {len(self.vocabulary)}; some in {self.path} are not.")

    def __reduce__(self):
        return TokenStore, (self.path,)  # another process maps the files itself

    def _joined(self, kind, check):
        arrays = [self._load(i, kind, "int64", record[kind] + 1) for i, record in enumerate(self._records)]
        for i, array in enumerate(arrays):
            check(i, array)
        if len(arrays) == 1:
            return arrays[0]
        moved = [array[:-1] + start for array, start in zip(arrays, self._starts, strict=False)]
        return np.concatenate([*moved, self._starts[-1:]])

    def _checked_passages(self, shard, starts):
        if starts[0] != 0 or starts[-1] != self._records[shard]["tokens"] or not (starts[1:] > starts[:-1]).all():
            raise self._not_parts(shard, "passages")

    def _checked_documents(self, shard, starts):
        # A shard may have no offsets, and may begin with the rest of a document.
        if starts[0] < 0 or starts[-1] != self._records[shard]["tokens"] or not (starts[1:] > starts[:-1]).all():
            raise self._not_parts(shard, "documents")

    def _not_parts(self, shard, kind):
        path = self.path / shard_file(self._records[shard]["number"], kind)
        return ValueError(f"expected ascending offsets of {kind} up to the number of tokens; {path} has others: it was changed.")

    def _ids(self, shard):
        try:
            return self._maps[shard]
        except KeyError:
            with self._lock:
                while len(self._maps) >= _MAPS_OPEN:
                    self._maps.pop(next(iter(self._maps)))
                array = self._load(shard, "ids", self._dtype, self._records[shard]["tokens"])
                return self._maps.setdefault(shard, array)

    def _load(self, shard, kind, dtype, length):
        path = self.path / shard_file(self._records[shard]["number"], kind)
        with open(path, "rb") as file:
            return mapped_array(file, dtype, (length,))


def _check_size(path, size):
    if not path.is_file():
        raise ValueError(f"expected all files of the tokens; {path} does not exist.")
    if path.stat().st_size != size:
        raise ValueError(f"expected {size} bytes; {path} has {path.stat().st_size}.")


def _read_vocabulary(path, sha256):
    if not path.is_file():
        raise ValueError(f"expected all files of the tokens; {path} does not exist.")
    if sha256_of(path) != sha256:
        raise ValueError(f"expected the vocabulary with which the corpus was prepared; {path} is a different one.")
    return [line.strip() for line in read_text(path, "vocabulary_bytes", encoding="utf-8-sig").removesuffix("\n").split("\n")]
