"""TensorFlow checkpoints read without TensorFlow.

A checkpoint `PREFIX` is a table `PREFIX.index` from names to entries and files `PREFIX.data-00000-of-0000N` with the bytes. The
table is a LevelDB table without compression, an entry a protocol buffer (`BundleEntryProto` of tensorflow/core/protobuf).
"""

import math
import struct
from collections import namedtuple
from pathlib import Path

import numpy as np

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
MAX_INDEX_BYTES = 256 << 20

# DataType of tensorflow/core/framework/types.proto.
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1", 9: "<i8", 10: "|b1", 19: "<f2", 22: "<u4", 23: "<u8"}


def _crc_row(n):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    return n


CRC_TABLE = tuple(_crc_row(n) for n in range(256))


class TensorFlowCheckpoint:
    """The arrays of a checkpoint by name.

    Args:
        path: prefix of the files, such as `bert_model.ckpt`; also one of the files, or a folder that holds one checkpoint.

    Raises:
        ValueError: nothing is there, or what is there is not a checkpoint.
    """

    def __init__(self, path):
        self.prefix = checkpoint_prefix(path)
        index = Path(f"{self.prefix}.index")
        try:
            table = read_table(index)
            self._num_shards = _number(_fields(table.pop(b"", b"")), 1, default=1)
            self._entries = {name.decode(): _entry(_fields(value)) for name, value in table.items()}
        except (IndexError, UnicodeDecodeError, struct.error) as error:
            raise ValueError(f"{index} is damaged: {error}.") from None

    @property
    def names(self):
        """The names of all arrays, sorted."""
        return sorted(self._entries)

    def shape(self, name):
        """The shape of an array."""
        return self._entries[name].shape

    def read(self, name):
        """An array, read from disk."""
        entry = self._entries[name]
        if entry.dtype not in DTYPES:
            raise ValueError(f"{self.prefix}: {name} has the data type number {entry.dtype}; known are {sorted(DTYPES)}.")
        dtype = np.dtype(DTYPES[entry.dtype])
        expected = math.prod(entry.shape) * dtype.itemsize
        data = Path(f"{self.prefix}.data-{entry.shard:05d}-of-{self._num_shards:05d}")
        if not data.exists():
            raise ValueError(f"{name} lies in {data}, which is missing.")
        if entry.size != expected or entry.offset + entry.size > data.stat().st_size:
            raise ValueError(
                f"{data} is damaged: {name} of shape {entry.shape} takes {expected} bytes; the index says {entry.size} at "
                f"{entry.offset}, and the file has {data.stat().st_size}."
            )
        with data.open("rb") as file:
            file.seek(entry.offset)
            return np.frombuffer(file.read(entry.size), dtype).reshape(entry.shape).copy()


Entry = namedtuple("Entry", ["dtype", "shape", "shard", "offset", "size"])


def checkpoint_prefix(path):
    """The prefix of the files of a checkpoint, from the prefix, one of the files or their folder."""
    path = Path(path)
    if path.is_dir():
        found = sorted(path.glob("*.index"))
        if len(found) != 1:
            raise ValueError(f"expected a folder with one checkpoint; {path} holds {len(found)} files ending in .index.")
        return found[0].with_suffix("")
    for ending in (".index", ".meta"):
        if path.name.endswith(ending):
            path = path.with_name(path.name.removesuffix(ending))
    if ".data-" in path.name:
        path = path.with_name(path.name.split(".data-")[0])
    if not Path(f"{path}.index").exists():
        raise ValueError(f"expected a checkpoint at {path}, that is a file {path}.index; there is none.")
    return path


def read_table(path):
    """All keys and values of a LevelDB table, as bytes."""
    size = path.stat().st_size
    if not FOOTER <= size <= MAX_INDEX_BYTES:
        raise ValueError(f"{path} is not a checkpoint index: it has {size} bytes.")
    content = path.read_bytes()
    if struct.unpack_from("<Q", content, size - 8)[0] != MAGIC:
        raise ValueError(f"{path} is not a checkpoint index: its last bytes are not those of a LevelDB table.")
    _, _, at = _handle(content, size - FOOTER)  # of the meta index, which is empty
    offset, length, _ = _handle(content, at)
    table = {}
    for _, value in _block(content, offset, length):
        offset, length, _ = _handle(value, 0)
        table.update(_block(content, offset, length))
    return table


def _entry(fields):
    """The numbers of a `BundleEntryProto`; its shape is a message of messages."""
    (shape,) = fields.get(2, [b""])[-1:]
    if not isinstance(shape, bytes):
        raise IndexError("a shape is a number")
    dims = tuple(_number(_fields(dim), 1) for dim in _fields(shape).get(2, []))
    return Entry(_number(fields, 1), dims, _number(fields, 3), _number(fields, 4), _number(fields, 5))


def _number(fields, number, default=0):
    value = fields.get(number, [default])[-1]
    if not isinstance(value, int):
        raise IndexError(f"field {number} of a message is no number")
    return value


def _block(content, offset, length):
    """The keys and values of a block; a key shares its beginning with the one before."""
    if offset + length + 5 > len(content):
        raise IndexError("a block ends behind the end of the file")
    if content[offset + length] != 0:
        raise IndexError("a block is compressed")
    block = content[offset : offset + length]
    if struct.unpack_from("<I", content, offset + length + 1)[0] != _masked_crc(block + b"\0"):
        raise IndexError("a checksum does not agree")
    end = length - 4 - 4 * struct.unpack_from("<I", block, length - 4)[0]
    key, at = b"", 0
    while at < end:
        shared, at = _varint(block, at)
        added, at = _varint(block, at)
        value_length, at = _varint(block, at)
        key = key[:shared] + block[at : at + added]
        at += added
        yield key, block[at : at + value_length]
        at += value_length


def _masked_crc(data):
    """CRC-32C, rotated and shifted as LevelDB stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _handle(content, at):
    offset, at = _varint(content, at)
    length, at = _varint(content, at)
    return offset, length, at


def _varint(content, at):
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError("a number is longer than 64 bits")


def _fields(message):
    """The fields of a protocol buffer: number to the list of its values, integers or bytes."""
    if not isinstance(message, bytes):
        raise IndexError("a message is a number")
    fields, at = {}, 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(message, at)
        elif wire == 2:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
            value, at = message[at : at + length], at + length
        else:
            raise IndexError(f"a field has the unknown wire type {wire}")
        fields.setdefault(number, []).append(value)
    return fields
