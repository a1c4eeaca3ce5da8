"""The files of an index.

    search.json             settings, counts, size and SHA-256 of every file, and last its own
    documents.*             ids, titles and texts: see `documents.py`
    block-000000.NAME.npy   the vectors of consecutive documents: see the storages

While the index is being built, its files are in the folder `.unfinished-index` inside it, together with `search-progress.json`, the
settings, and `documents.json` and `block-000000.json`, records of complete files, which are merged into search.json.
"""

import contextlib
import hashlib
import json
import os
from typing import NamedTuple

from keras_bert_rebuild.data.corpora.store_files import is_intact, sha256_of, write_json
from keras_bert_rebuild.files.durable import mapped_array, written_file
from keras_bert_rebuild.files.kinds import INDEX, declared_names
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import parse_json, read_text
from keras_bert_rebuild.search.documents import FILES

FORMAT = "keras_bert_rebuild search"
# Version 1 is also read: its search.json has no SHA-256 of its own.
VERSION = 2
MANIFEST = "search.json"
PROGRESS = "search-progress.json"
DOCUMENTS_RECORD = "documents.json"
UNFINISHED = ".unfinished-index"


class StaleIndexError(ValueError):
    """The folder of an open index was replaced, or its files were changed: `Index.open` opens what is there now."""


def block_file(number, name):
    """Name of a file of a block."""
    return f"block-{number:06d}.{name}.npy"


def block_record(number):
    """Name of the file that marks a block as done."""
    return f"block-{number:06d}.json"


def write_block(folder, number, documents, arrays, save):
    """Write the arrays of a block and return its record.

    Args:
        folder: the folder, whose lock is held.
        number: number of the block.
        documents: number of documents in it.
        arrays: arrays by name.
        save: `numpy.save`.
    """
    names = []
    for name, values in arrays.items():
        names.append(block_file(number, name))
        with written_file(folder / names[-1], claimed=True) as file:
            save(file, values, allow_pickle=False)
    record = {"documents": documents, "files": files_record(folder, names)}
    write_json(folder / block_record(number), record)
    return record


def files_record(folder, names):
    """Size and SHA-256 of files, for a record."""
    return {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)} for name in names}


def finished_record(folder, name):
    """The record of files that are complete and unchanged; None without one."""
    try:
        record = parse_json(read_text(folder / name, "json_bytes", "JSON"), folder / name)
        valid = isinstance(record["documents"], int) and is_intact(folder, record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        valid = False
    return record if valid else None


def write_manifest(folder, content):
    """Write search.json with its own SHA-256."""
    write_json(folder / MANIFEST, {**content, "sha256": _digest(content)})


def read_manifest(folder, name=MANIFEST):
    """The content of search.json, or of search-progress.json.

    Raises:
        ValueError: the folder is not an index or is unfinished, or the file is damaged or of another version.
    """
    path = folder / name
    if not path.is_file():
        problem = "does not exist" if not folder.exists() else "is a file" if not folder.is_dir() else f"has no {name}"
        if any(above.joinpath(PROGRESS).is_file() for above in (folder, folder / UNFINISHED)):
            problem = "is not finished: run the same command again"
        raise ValueError(f"expected a folder that `keras-bert index` wrote; {printable(folder)} {problem}.")
    try:
        manifest = parse_json(read_text(path, "store_index_bytes", "JSON"), path, "labelled_json_values")
        version, valid = manifest["version"], manifest["format"] == FORMAT
        if valid and version == VERSION:
            valid = _is_valid(manifest, name)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        valid = False
    if not valid:
        raise ValueError(f"expected a file that `keras-bert index` wrote; {printable(path)} is damaged or another kind of file.")
    if version != VERSION:
        raise ValueError(f"expected version {VERSION} of the format; {printable(path)} has {version!r}: build the index again.")
    return manifest


def _is_valid(manifest, name):
    settings, described = manifest["settings"], manifest["settings"]["retriever"]
    valid = all(isinstance(settings[name], str) for name in ("dtype", "rescoring"))
    valid = valid and type(settings["block"]) is int and settings["block"] > 0
    valid = valid and isinstance(described["vectors"], str) and type(described["width"]) is int and described["width"] > 0
    valid = valid and isinstance(described["model"], dict)
    if name == MANIFEST:
        counts = [record["documents"] for record in manifest["blocks"]]
        valid = valid and all(type(count) is int and 0 < count <= settings["block"] for count in counts)
        valid = valid and set(counts[:-1]) <= {settings["block"]} and manifest["documents"]["documents"] == sum(counts) > 0
        valid = valid and (manifest["model"] is None or isinstance(manifest["model"], str))
        content = {key: value for key, value in manifest.items() if key != "sha256"}
        valid = valid and manifest["sha256"] == _digest(content)
    return valid


def _digest(content):
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def own_names(folder):
    """The names in a folder that the search.json there says are of the index; without a readable one only those of no file."""
    try:
        manifest = parse_json(read_text(folder / MANIFEST, "store_index_bytes", "JSON"), MANIFEST, "labelled_json_values")
        names = [MANIFEST, *(name for record in (manifest["documents"], *manifest["blocks"]) for name in record["files"])]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return declared_names(names, INDEX)


def open_files(folder, storage_of, verify=True):
    """The manifest of an index, its storage and its `IndexFiles`, all of one build.

    Args:
        folder: the index.
        storage_of: a function of the manifest that returns the storage of its vectors.
        verify: see `IndexFiles`.

    Raises:
        StaleIndexError: the index was replaced in between.
        ValueError: it is damaged.
    """
    before = _state_of(folder / MANIFEST)
    manifest = read_manifest(folder)
    storage = storage_of(manifest)
    expected = [(name, manifest["documents"]) for name in FILES]
    for number, record in enumerate(manifest["blocks"]):
        expected += [(block_file(number, name), record) for name in storage.arrays(record["documents"])]
    try:
        files = IndexFiles(folder, {name: record["files"][name] for name, record in expected}, verify)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ValueError) and _state_of(folder / MANIFEST) == before:
            raise
        files = None
    if _state_of(folder / MANIFEST) != before:
        raise _stale(folder)
    if files is None:
        raise ValueError(f"expected sizes of all files of the index; {printable(folder / MANIFEST)} lacks some: build it again.")
    return manifest, storage, files


class IndexFiles:
    """The files of an index as they are when it is opened.

    Every file is compared with its SHA-256 when it is first read, at one to two gigabytes per second, and must be the same file
    whenever it is read again.

    Args:
        folder: the folder of the index.
        records: size and SHA-256 of the files by name.
        verify: whether the SHA-256 are compared.

    Raises:
        ValueError: a file is missing or has another size.
    """

    def __init__(self, folder, records, verify=True):
        self.folder, self._records = folder, records
        self._unread = set(records) if verify else set()
        self._states = {}
        for name, record in records.items():
            path = folder / name
            state = self._states[name] = _state_of(path)
            if state is None or state.bytes != record["bytes"]:
                has = "is missing" if state is None else f"has {state.bytes:,} bytes"
                raise ValueError(
                    f"expected the files that `keras-bert index` wrote; {printable(path)} {has}: build the index again."
                )

    def open(self, name):
        """Open a file for reading bytes.

        Raises:
            StaleIndexError: it is not the file that was there when the index was opened.
            ValueError: its bytes are not those that were written.
        """
        path = self.folder / name
        with contextlib.ExitStack() as opened:
            try:
                file = opened.enter_context(open(path, "rb"))
            except FileNotFoundError:
                raise _stale(path) from None
            if _State.of(os.fstat(file.fileno())) != self._states[name]:
                raise _stale(path)
            if name in self._unread:
                if hashlib.file_digest(file, "sha256").hexdigest() != self._records[name]["sha256"]:
                    raise ValueError(
                        f"expected the bytes that `keras-bert index` wrote; {printable(path)} was changed: build the index again."
                    )
                self._unread.discard(name)
                file.seek(0)
            opened.pop_all()  # the caller closes it
            return file

    def array(self, name, dtype, shape):
        """The memory-mapped array in a file; see `mapped_array`."""
        with self.open(name) as file:
            return mapped_array(file, dtype, shape)

    def size(self, name):
        """The size of a file in bytes."""
        return self._records[name]["bytes"]


class _State(NamedTuple):
    """What tells a file from another one of its name."""

    device: int
    inode: int
    bytes: int
    changed: int

    @classmethod
    def of(cls, status):
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _state_of(path):
    """The state of a file; None if there is no file."""
    return _State.of(path.stat()) if path.is_file() else None


def _stale(path):
    return StaleIndexError(f"{printable(path)} was replaced or changed since this index was opened: open it again.")
