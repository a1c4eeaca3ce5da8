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

from keras_bert_rebuild.data.corpora.offsets import JoinedOffsets, by_piece
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

# Up to this many offsets of several shards are joined in memory, where they are found faster.
_JOINED = 1 << 21


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
        self._maps: dict[tuple[int, str], np.ndarray] = {}
        self._lock = threading.Lock()
        self._checked: set[str] = set()

    def ids_at(self, positions: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Token ids.

        Args:
            positions: integers in `[0, num_tokens)`, of any shape.

        Returns:
            An int32 array of the same shape.
        """
        positions = checked_positions(positions, self.num_tokens)
        if len(self._records) == 1:
            return self._array(0, "ids")[positions].astype("int32")
        if not positions.size:
            return np.zeros(positions.shape, "int32")
        shards = span_indexes(self._starts, positions)
        # Positions in one shard are read together: single ones, or whole rows.
        wanted = positions.reshape(shards.size, -1)
        result = np.empty(wanted.shape, "int32")
        for shard, rows in by_piece(shards.ravel()):
            result[rows] = self._array(shard, "ids")[wanted[rows] - self._starts[shard]]
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
    def passage_starts(self) -> npt.NDArray[np.int64] | JoinedOffsets:
        """Offset of every passage, and last the number of tokens: int64, `(passages + 1,)`, ascending."""
        return self._joined("passages", [record["passages"] for record in self._records])

    @functools.cached_property
    def document_starts(self) -> npt.NDArray[np.int64] | JoinedOffsets:
        """Offset of every document, and last the number of tokens: int64, `(documents + 1,)`, ascending."""
        counts = [record["documents"] for record in self._records]
        for shard in self._restarts:
            counts[shard] = len(self._array(shard, "documents")) - 1
        return self._joined("documents", counts)

    def verify(self) -> None:
        """Compare the SHA-256 of every file with the recorded one, about 0.5 GB per second; `pretrain` does so at every start.

        Raises:
            ValueError: a file was changed, or passages or documents do not partition the tokens.
        """
        for name, file in self._files.items():
            if sha256_of(self.path / name) != file["sha256"]:
                raise ValueError(f"expected the bytes that `keras-bert prepare` wrote; {self.path / name} was changed.")
        # The index may have been changed together with a file.
        for shard in range(len(self._records)):
            ids, passages, documents = (self._read(shard, kind) for kind in ("ids", "passages", "documents"))
            if (passages[np.searchsorted(passages, documents)] != documents).any():
                raise ValueError(f"expected documents that begin at a passage; some in {self.path} do not: it was changed.")
            if ids.min() < 0 or ids.max() >= len(self.vocabulary):
                raise ValueError(f"expected ids below the vocabulary size of {len(self.vocabulary)}; some in {self.path} are not.")

    def __reduce__(self):
        return TokenStore, (self.path,)  # another process maps the files itself

    @functools.cached_property
    def _restarts(self):
        """The shards that begin with a document, whatever their first offset."""
        # A shard begins with the rest of a document of the previous shard, or with a new document. If the previous shard has no
        # tokens, it is unknown which document the rest belongs to: it becomes a document.
        numbers = [record["number"] for record in self._records]
        return {0, *(i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1)}

    def _joined(self, kind, counts):
        if len(self._records) == 1:
            return self._array(0, kind)
        if sum(counts) > _JOINED:
            return JoinedOffsets(lambda shard: self._array(shard, kind), counts, self._starts)
        moved = [self._array(shard, kind)[:count] + self._starts[shard] for shard, count in enumerate(counts)]
        return np.concatenate([*moved, self._starts[-1:]])

    def _check_offsets(self, shard, kind, starts):
        # A shard may have no documents, and may begin with the rest of one.
        first = starts[0] == 0 if kind == "passages" else starts[0] >= 0
        if not first or starts[-1] != self._records[shard]["tokens"] or not (starts[1:] > starts[:-1]).all():
            raise self._not_parts(shard, kind)

    def _not_parts(self, shard, kind):
        path = self.path / shard_file(self._records[shard]["number"], kind)
        return ValueError(f"expected ascending offsets of {kind} up to the number of tokens; {path} has others: it was changed.")

    def _array(self, shard, kind):
        """The token ids of a shard, or its offsets of passages or documents, memory-mapped."""
        try:
            return self._maps[shard, kind]
        except KeyError:
            with self._lock:
                while len(self._maps) >= _MAPS_OPEN:
                    self._maps.pop(next(iter(self._maps)))
                return self._maps.setdefault((shard, kind), self._read(shard, kind))

    def _read(self, shard, kind):
        record = self._records[shard]
        path = self.path / shard_file(record["number"], kind)
        with open(path, "rb") as file:
            if kind == "ids":
                return mapped_array(file, self._dtype, (record["tokens"],))
            starts = mapped_array(file, "int64", (record[kind] + 1,))
        if path.name not in self._checked:
            self._check_offsets(shard, kind, starts)
            self._checked.add(path.name)
        return np.append(0, starts) if kind == "documents" and shard in self._restarts and starts[0] else starts


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
