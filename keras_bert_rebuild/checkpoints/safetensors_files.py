"""Safetensors: one file, or several with an index."""

import json
import struct
from collections import namedtuple
from pathlib import Path

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert_rebuild.checkpoints.loaded_values import read_array
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular, parse_json, read_text

INDEX = "model.safetensors.index.json"

# The names of dtypes in the format.
DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "I64": "int64", "I32": "int32", "BOOL": "bool"}


Entry = namedtuple("Entry", ["file", "dtype", "shape", "offset"])


class SafetensorsFiles:
    """The arrays of one or several safetensors files by name, read from disk on request.

    Args:
        path: a `.safetensors` file, or the `.index.json` of several.

    Raises:
        ValueError: a file is missing or damaged, or a name is in two of them.
    """

    def __init__(self, path):
        path = Path(path)
        file_of = None if path.suffix != ".json" else files_of_index(path)
        self._entries = {}
        for file in [path] if file_of is None else sorted(set(file_of.values())):
            for name, entry in _entries(file):
                if name in self._entries:
                    raise ValueError(f"{printable(name)} is in two files, {self._entries[name].file} and {file}.")
                self._entries[name] = entry
        if file_of is not None:
            check_index(path, file_of, {name: entry.file for name, entry in self._entries.items()})

    @property
    def names(self):
        """The names of all arrays, sorted."""
        return sorted(self._entries)

    def shape(self, name):
        """The shape of an array."""
        return self._entries[name].shape

    def dtype(self, name):
        """The dtype of an array, in NumPy's spelling if it has one."""
        return self._entries[name].dtype

    def read(self, name):
        """An array, read from disk."""
        return read_array(*self._entries[name])


def _entries(file):
    """The name and the `Entry` of every array of a file.

    The library validates the header but does not return the offsets of the arrays, so the header is parsed again for them.
    """
    check_safetensors(file)
    try:
        with safe_open(file, "np") as tensors:
            names = list(tensors.keys())
    except SafetensorError as error:
        raise ValueError(f"{file} is not a safetensors file, or is damaged: {printable(error)}.") from None
    with file.open("rb") as content:
        (length,) = struct.unpack("<Q", content.read(8))
        header = parse_json(content.read(length).decode("utf-8"), file)
    check_limit("arrays", len(names), str(file))
    for name in names:
        entry = header[name]
        dtype = DTYPES.get(entry["dtype"], entry["dtype"])
        yield name, Entry(file, dtype, tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])


def check_safetensors(file):
    """Refuse a missing file, and a header longer than any in use, before the library reads it.

    Raises:
        ValueError: the file does not exist, or its header is too long.
    """
    if not file.exists():
        raise ValueError(f"expected a safetensors file at {file}; it does not exist.")
    size = check_regular(file)
    with file.open("rb") as content:
        start = content.read(8)
    length = int.from_bytes(start, "little")
    if len(start) == 8 and length <= size:  # otherwise the library reports the problem
        check_limit("safetensors_header_bytes", length, f"the header of {file}")


def write_safetensors(folder, arrays, max_shard_bytes=5_000_000_000):
    """Write arrays as `model.safetensors`, or as several files with an index.

    Args:
        folder: the folder to write to.
        arrays: an iterable of `(name, array)`.
        max_shard_bytes: maximum size of one file.

    Raises:
        OSError: writing fails.
    """
    folder, shards, size, file_of = Path(folder), 0, 0, {}
    pending = {}

    def write():
        nonlocal shards, pending, size
        shards, size = shards + 1, 0
        try:
            save_file(pending, folder / f"{shards}.part", metadata={"format": "pt"})
        except SafetensorError as error:  # the library does not raise OSError if the disk is full
            raise OSError(f"{folder} cannot be written: {error}.") from None
        file_of.update(dict.fromkeys(pending, shards))
        pending = {}

    total = 0
    for name, array in arrays:
        if pending and size + array.nbytes > max_shard_bytes:
            write()
        pending[name] = array
        size, total = size + array.nbytes, total + array.nbytes
    write()
    if shards == 1:
        (folder / "1.part").rename(folder / "model.safetensors")
        return
    names = {i: f"model-{i:05d}-of-{shards:05d}.safetensors" for i in range(1, shards + 1)}
    for i, name in names.items():
        (folder / f"{i}.part").rename(folder / name)
    index = {"metadata": {"total_size": total}, "weight_map": {name: names[i] for name, i in sorted(file_of.items())}}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def files_of_index(path):
    """The file of every array listed in an index, by the array's name; all files must be in the folder of the index."""
    try:
        weight_map = dict(parse_json(read_text(path, "json_bytes", "JSON"), path)["weight_map"])
        outside = [file for file in weight_map.values() if Path(file).name != file]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is not an index of weight files: {type(error).__name__}: {printable(error)}.") from None
    if outside:
        raise ValueError(f"{path} lists {printable(outside[0])}, which is outside its folder.")
    return {name: path.parent / file for name, file in weight_map.items()}


def check_index(path, file_of, file_with):
    """Refuse an index that does not match its files."""
    for name in file_of.keys() | file_with.keys():
        if name not in file_of:
            raise ValueError(f"{path} does not list {printable(name)}, which is in {file_with[name].name}.")
        if file_with.get(name) != file_of[name]:
            raise ValueError(f"{path} lists {printable(name)} in {file_of[name].name}, which does not contain it.")
