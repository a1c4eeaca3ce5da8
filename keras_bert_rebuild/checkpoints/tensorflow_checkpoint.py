"""TensorFlow checkpoints read and written without TensorFlow.

A checkpoint `PREFIX` is a table `PREFIX.index` from names to entries, and files `PREFIX.data-00000-of-0000N` with the values. An
entry is a protocol buffer, `BundleEntryProto` of tensorflow/core/protobuf/tensor_bundle.proto.
"""

import math
import struct
from collections import namedtuple
from pathlib import Path

import numpy as np

from keras_bert_rebuild.checkpoints.leveldb_table import fields_of, make_field, make_fixed32, masked_crc, read_table, write_table
from keras_bert_rebuild.checkpoints.loaded_values import read_array
from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.files.reading import check_regular

# DataType of tensorflow/core/framework/types.proto.
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1", 9: "<i8", 10: "|b1", 19: "<f2", 22: "<u4", 23: "<u8"}
NUMBER_OF = {np.dtype(dtype): number for number, dtype in DTYPES.items()}

Entry = namedtuple("Entry", ["dtype", "shape", "shard", "offset", "size", "checksum", "sliced"])


class TensorFlowCheckpoint:
    """The arrays of a checkpoint by name.

    Args:
        path: the prefix of the files, such as `bert_model.ckpt`, one of the files, or a folder with one checkpoint.

    Raises:
        ValueError: the files do not exist, or are not a checkpoint.
    """

    def __init__(self, path):
        self.prefix = checkpoint_prefix(path)
        index = Path(f"{self.prefix}.index")
        try:
            table = read_table(index)
            self._num_shards = _number(fields_of(table.pop(b"", b"")), 1, default=1)
            self._entries = {name.decode(): _entry(fields_of(value)) for name, value in table.items()}
        except (IndexError, UnicodeDecodeError, struct.error) as error:
            raise ValueError(f"{index} is damaged: {error}.") from None
        self._check_sizes(index)

    def _check_sizes(self, index):
        """Refuse an index in which arrays overlap, so that a small file would be read a thousand times.

        An array that extends past the end of its file is only an error when it is read.
        """
        for shard in {entry.shard for entry in self._entries.values()}:
            data = self._data_file(shard)
            file_size = check_regular(data)
            declared = sum(e.size for e in self._entries.values() if e.shard == shard and e.offset + e.size <= file_size)
            if declared > file_size:
                raise ValueError(
                    f"{index} is damaged: its arrays in {data.name} take {declared:,} bytes; the file has {file_size:,}."
                )

    def _data_file(self, shard):
        return Path(f"{self.prefix}.data-{shard:05d}-of-{self._num_shards:05d}")

    @property
    def names(self):
        """The names of all arrays, sorted."""
        return sorted(self._entries)

    def shape(self, name):
        """The shape of an array."""
        return self._entries[name].shape

    def dtype(self, name):
        """The dtype of an array, in NumPy's spelling if it has one."""
        number = self._entries[name].dtype
        return np.dtype(DTYPES[number]).name if number in DTYPES else f"data type number {number}"

    def read(self, name):
        """An array, read from disk; its checksum is verified."""
        entry = self._entries[name]
        if entry.dtype not in DTYPES:
            raise ValueError(f"{self.prefix}: {name} has data type number {entry.dtype}; supported: {sorted(DTYPES)}.")
        if entry.sliced:
            raise ValueError(f"{self.prefix}: {name} was saved in slices, which is not supported: save it again in one piece.")
        dtype = np.dtype(DTYPES[entry.dtype])
        expected = math.prod(entry.shape) * dtype.itemsize
        data = self._data_file(entry.shard)
        if not data.exists():
            raise ValueError(f"{name} is in {data}, which is missing.")
        if entry.size != expected or entry.offset + entry.size > data.stat().st_size:
            raise ValueError(
                f"{data} is damaged: {name} of shape {entry.shape} takes {expected} bytes; the index lists {entry.size} at offset "
                f"{entry.offset}, and the file has {data.stat().st_size}."
            )
        array = read_array(data, dtype, entry.shape, entry.offset)
        if entry.checksum is not None and masked_crc(array) != entry.checksum:
            raise ValueError(f"{data} is damaged: the checksum of {name} does not match.")
        return array


def checkpoint_prefix(path):
    """The prefix of a checkpoint's files, from the prefix itself, one of the files, or their folder."""
    path = Path(path)
    if path.is_dir():
        indexes = sorted(path.glob("*.index"))
        if len(indexes) != 1:
            raise ValueError(f"expected a folder with one checkpoint; {path} has {len(indexes)} files ending in .index.")
        return indexes[0].with_suffix("")
    for ending in (".index", ".meta"):
        if path.name.endswith(ending):
            path = path.with_name(path.name.removesuffix(ending))
    if ".data-" in path.name:
        path = path.with_name(path.name.split(".data-")[0])
    if not Path(f"{path}.index").exists():
        raise ValueError(f"expected a checkpoint at {path}; {path}.index does not exist.")
    return path


def write_tensorflow_checkpoint(prefix, arrays):
    """Write a checkpoint with one data file.

    Args:
        prefix: the prefix of the files, such as `folder/bert_model.ckpt`.
        arrays: an iterable of `(name, array)`.

    Raises:
        ValueError: an array has a dtype that is not supported, such as bfloat16.
    """
    table = {b"": make_field(1, 1) + make_field(3, make_field(1, 1))}  # one data file, version 1
    with Path(f"{prefix}.data-00000-of-00001").open("wb") as file:
        for name, array in arrays:
            array = np.ascontiguousarray(array)
            if array.dtype not in NUMBER_OF:
                supported = ", ".join(dtype.name for dtype in NUMBER_OF)
                raise ValueError(f"a TensorFlow checkpoint stores {supported}; {name} is {array.dtype.name}: choose another dtype.")
            shape = b"".join(make_field(2, make_field(1, length)) for length in array.shape)
            entry = make_field(1, NUMBER_OF[array.dtype]) + make_field(2, shape)
            entry += make_field(4, file.tell()) + make_field(5, array.nbytes) + make_fixed32(6, masked_crc(array))
            table[name.encode()] = entry
            file.write(array.data)  # not `tofile`, which does not report a full disk
    write_table(Path(f"{prefix}.index"), table)


def _entry(fields):
    """The `Entry` of a `BundleEntryProto`, whose shape is a nested message."""
    (shape,) = fields.get(2, [b""])[-1:]
    if not isinstance(shape, bytes):
        raise IndexError("expected a shape, found a number")
    dims = fields_of(shape).get(2, [])
    if len(dims) > limit("array_dimensions"):
        raise IndexError(f"an array has {len(dims)} dimensions")
    dims = tuple(_number(fields_of(dim), 1) for dim in dims)
    numbers = (_number(fields, number) for number in (3, 4, 5))
    return Entry(_number(fields, 1), dims, *numbers, _number(fields, 6, default=None), 7 in fields)


def _number(fields, number, default=0):
    value = fields.get(number, [default])[-1]
    if not isinstance(value, int) and value is not default:
        raise IndexError(f"field {number} of a message is not a number")
    return value
