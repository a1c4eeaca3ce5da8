"""Writes a TensorFlow checkpoint with NumPy alone: the inverse of the reader, written from the format."""

import struct

import numpy as np

CODES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9}


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def block(pairs):
    """A block whose keys share prefixes, with one restart point."""
    out, last = b"", b""
    for key, value in pairs:
        shared = 0
        while shared < min(len(key), len(last)) and key[shared] == last[shared]:
            shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return out + struct.pack("<II", 0, 1)


def closed(body):
    """A block with its trailer: no compression, and the checksum, a CRC-32C computed bit by bit."""
    crc = 0xFFFFFFFF
    for byte in body + b"\0":
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return body + b"\0" + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def write_checkpoint(prefix, arrays):
    data, entries = b"", [(b"", field(1, 1))]
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        shape = b"".join(field(2, field(1, n)) for n in array.shape)
        raw = array.tobytes()
        entry = field(1, CODES[array.dtype.name]) + field(2, shape) + field(4, len(data)) + field(5, len(raw))
        entries.append((name.encode(), entry))
        data += raw
    content, index = b"", []
    for start in range(0, len(entries), 7):  # several blocks
        part = entries[start : start + 7]
        body = block(part)
        index.append((part[-1][0] + b"~", varint(len(content)) + varint(len(body))))
        content += closed(body)
    handles = []
    for body in (block([]), block(index)):
        handles.append(varint(len(content)) + varint(len(body)))
        content += closed(body)
    footer = b"".join(handles).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    prefix.with_name(prefix.name + ".index").write_bytes(content + footer)
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(data)
