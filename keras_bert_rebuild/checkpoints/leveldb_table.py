"""Uncompressed LevelDB tables and the messages in them: the format of the index of a TensorFlow checkpoint.

Reference: google/leveldb, doc/table_format.md; the encoding of protocol buffers, https://protobuf.dev/programming-guides/encoding.
"""

import struct

import google_crc32c

from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.reading import check_regular, read_varint, varint

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
TRAILER = 5
BLOCK_ENTRIES = 64


def read_table(path):
    """All keys and values of a table, as bytes.

    Raises:
        ValueError: the file is not a table.
        IndexError, struct.error: the table is damaged.
    """
    size = check_regular(path)
    check_limit("tensorflow_index_bytes", size, str(path))
    if size < FOOTER:
        raise ValueError(f"{path} is not a checkpoint index: {size} bytes are too few.")
    content = path.read_bytes()
    if struct.unpack_from("<Q", content, size - 8)[0] != MAGIC:
        raise ValueError(f"{path} is not a checkpoint index: it does not end as a LevelDB table does.")
    _, _, at = _handle(content, size - FOOTER)  # skip the metaindex, which is empty
    offset, length, _ = _handle(content, at)
    table, end = {}, 0
    for _, value in _read_block(content, offset, length):
        offset, length, _ = _handle(value, 0)
        # Blocks must not overlap: a thousand handles of one block would be read a thousand times.
        if offset < end:
            raise IndexError("two blocks have the same offset")
        end = offset + length
        table.update(_read_block(content, offset, length))
        check_limit("arrays", len(table), str(path))
    return table


def write_table(path, table):
    """Write keys and values, bytes to bytes, as a table."""
    keys = sorted(table)
    content, index = b"", []
    for start in range(0, len(keys), BLOCK_ENTRIES):
        part = keys[start : start + BLOCK_ENTRIES]
        body = _make_block((key, table[key]) for key in part)
        index.append((part[-1], varint(len(content)) + varint(len(body))))
        content += _closed(body)
    handles = b""
    for body in (_make_block(()), _make_block(index)):
        handles += varint(len(content)) + varint(len(body))
        content += _closed(body)
    path.write_bytes(content + handles.ljust(FOOTER - 8, b"\0") + struct.pack("<Q", MAGIC))


def masked_crc(data):
    """CRC-32C of a buffer, rotated and shifted as LevelDB stores it."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields_of(message):
    """The fields of a protocol buffer: field number to the list of its values, integers or bytes."""
    if not isinstance(message, bytes):
        raise IndexError("expected a message, found a number")
    fields, at = {}, 0
    while at < len(message):
        tag, at = read_varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = read_varint(message, at)
        elif wire == 2:
            length, at = read_varint(message, at)
            value, at = message[at : at + length], at + length
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
            value, at = int.from_bytes(message[at : at + length], "little"), at + length
        else:
            raise IndexError(f"a field has the unknown wire type {wire}")
        fields.setdefault(number, []).append(value)
    return fields


def make_field(number, value):
    """A field of a protocol buffer, from an integer or bytes."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def make_fixed32(number, value):
    """A 32-bit fixed-width field of a protocol buffer."""
    return varint(number << 3 | 5) + struct.pack("<I", value)


def _read_block(content, offset, length):
    """The keys and values of a block, whose keys are prefix-compressed."""
    if offset + length + TRAILER > len(content):
        raise IndexError("a block extends past the end of the file")
    if content[offset + length] != 0:
        raise IndexError("a block is compressed")
    block = content[offset : offset + length]
    if struct.unpack_from("<I", content, offset + length + 1)[0] != masked_crc(block + b"\0"):
        raise IndexError("a checksum does not match")
    end = length - 4 - 4 * struct.unpack_from("<I", block, length - 4)[0]
    key, at = b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        added, at = read_varint(block, at)
        value_length, at = read_varint(block, at)
        if shared + added > limit("name_characters") or shared > len(key):
            raise IndexError("a name is too long")
        key = key[:shared] + block[at : at + added]
        at += added
        yield key, block[at : at + value_length]
        at += value_length


def _make_block(pairs):
    """A block of complete keys, with a single restart point."""
    body = b"".join(varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in pairs)
    return body + struct.pack("<II", 0, 1)


def _closed(body):
    """A block with its trailer: no compression, and a checksum."""
    return body + b"\0" + struct.pack("<I", masked_crc(body + b"\0"))


def _handle(content, at):
    offset, at = read_varint(content, at)
    length, at = read_varint(content, at)
    return offset, length, at
