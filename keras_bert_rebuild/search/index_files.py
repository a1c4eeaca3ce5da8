"""The files of an index.

    search.json             settings, counts, size and SHA-256 of every file
    documents.*             ids, titles and texts: see `documents.py`
    block-000000.NAME.npy   the vectors of consecutive documents: see the storages

While the index is being built, there are also `search-progress.json` with the settings, and `documents.json` and
`block-000000.json`, records of complete files, which are merged into search.json.
"""

from keras_bert_rebuild.data.corpora.store_files import is_intact, sha256_of, write_json
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.json_text import parse_json
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.regular import read_text
from keras_bert_rebuild.search.documents import FILES, open_array

FORMAT = "keras_bert_rebuild search"
VERSION = 1
MANIFEST = "search.json"
PROGRESS = "search-progress.json"
DOCUMENTS_RECORD = "documents.json"


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


def read_manifest(folder, name=MANIFEST):
    """The content of search.json, or of search-progress.json.

    Raises:
        ValueError: the folder is not an index or is unfinished, or the file is damaged or of another version.
    """
    path = folder / name
    if not path.is_file():
        problem = "does not exist" if not folder.exists() else "is a file" if not folder.is_dir() else f"has no {name}"
        if (folder / PROGRESS).is_file():
            problem = "is not finished: run the same command again"
        raise ValueError(f"expected a folder that `keras-bert index` wrote; {printable(folder)} {problem}.")
    try:
        found = parse_json(read_text(path, "store_index_bytes", "JSON"), path, "labelled_json_values")
        settings = found["settings"]
        valid = found["format"] == FORMAT and all(isinstance(settings[name], str) for name in ("dtype", "rescoring"))
        valid = valid and type(settings["block"]) is int and settings["block"] > 0
        described = settings["retriever"]
        valid = valid and isinstance(described["vectors"], str) and type(described["width"]) is int and described["width"] > 0
        valid = valid and isinstance(described["model"], dict)
        version = found["version"]
        if name == MANIFEST:
            counts = [record["documents"] for record in found["blocks"]]
            valid = valid and all(type(count) is int and 0 < count <= settings["block"] for count in counts)
            valid = valid and set(counts[:-1]) <= {settings["block"]} and found["documents"]["documents"] == sum(counts) > 0
            valid = valid and (found["model"] is None or isinstance(found["model"], str))
    except (ValueError, KeyError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise ValueError(f"expected a file that `keras-bert index` wrote; {printable(path)} is damaged or another kind of file.")
    if version != VERSION:
        raise ValueError(f"expected version {VERSION} of the format; {printable(path)} has {version!r}: build the index again.")
    return found


def check_files(folder, manifest, storage):
    """Refuse an index in which a file is missing or has another size.

    Args:
        folder: the index.
        manifest: its manifest, from `read_manifest`.
        storage: the storage of its vectors.

    Raises:
        ValueError: a file is missing or has changed.
    """
    expected = {name: _size(manifest["documents"], name) for name in FILES}
    for number, record in enumerate(manifest["blocks"]):
        names = (block_file(number, name) for name in storage.arrays(record["documents"]))
        expected |= {name: _size(record, name) for name in names}
    for name, size in expected.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else None
        if found != size or size is None:
            has = "is missing" if found is None else f"has {found:,} bytes"
            raise ValueError(f"expected the files that `keras-bert index` wrote; {printable(path)} {has}: build the index again.")


class LooseBlock(dict):
    """The encoded arrays of a block by name, in memory."""

    def __init__(self, arrays, documents):
        super().__init__(arrays)
        self.documents = documents


def _size(record, name):
    files = record.get("files")
    file = files.get(name) if isinstance(files, dict) else None
    return file.get("bytes") if isinstance(file, dict) else None


class Block:
    """The arrays of a block by name, memory-mapped on first access for the lifetime of this object.

    Args:
        folder: the folder of the index.
        number: number of the block.
        first: index of its first document.
        documents: number of documents in it.
        expected: dtype and shape of the arrays by name.
    """

    def __init__(self, folder, number, first, documents, expected):
        self._folder, self._number, self._expected = folder, number, expected
        self.first, self.documents = first, documents
        self._opened = {}

    def __getitem__(self, name):
        if name not in self._opened:
            dtype, shape = self._expected[name]
            self._opened[name] = open_array(self._folder / block_file(self._number, name), dtype, shape)
        return self._opened[name]
