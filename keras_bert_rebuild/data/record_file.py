"""Files of records with checksums, TensorFlow's TFRecord."""

import contextlib
import gzip
import struct
import zlib
from pathlib import Path

import google_crc32c

from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.limits import limit

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_TOO_LONG = limit("record_bytes") + 1


def write_records(path, records):
    """Write byte strings to a file atomically, compressed if its name ends in `.gz`.

    Args:
        path: a path.
        records: an iterable of `bytes`.
    """
    path = Path(path)
    # Without a timestamp, the same records give the same file.
    with written_file(path) as raw, _compressed(raw, path) as file:
        for record in records:
            length = _LENGTH.pack(len(record))
            for part in (length, record):
                file.write(part)
                file.write(_CHECKSUM.pack(masked_crc32c(part)))


def read_records(path):
    """The records of a file, in order; a file whose name ends in `.gz` is compressed.

    Args:
        path: a path.

    Yields:
        `bytes`.

    Raises:
        ValueError: the file is cut off or damaged.
    """
    with (gzip.open if _is_gzip(path) else open)(path, "rb") as file:
        number = 0
        while True:
            try:
                record = _read_record(file, path, number)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(f"{path} must be a whole gzip file; record {number} cannot be read: {error}.") from None
            if record is None:
                return
            yield record
            number += 1


def masked_crc32c(data):
    """The checksum of a record: CRC-32C, rotated and shifted.

    Reference: `tensorflow/core/lib/hash/crc32c.h`.
    """
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _read_record(file, path, number):
    """The next record, or None at the end of the file."""
    head = file.read(_LENGTH.size)
    if not head:
        return None
    _check(path, number, head, _LENGTH.size, file.read(_CHECKSUM.size), "the length of")
    (length,) = _LENGTH.unpack(head)
    if length >= _TOO_LONG:
        raise ValueError(f"{path} must hold records of at most {_TOO_LONG - 1:,} bytes; record {number} states {length:,}.")
    data = file.read(length)
    _check(path, number, data, length, file.read(_CHECKSUM.size), "the bytes of")
    return data


def _check(path, number, data, length, checksum, what):
    if len(data) < length or len(checksum) < _CHECKSUM.size:
        raise ValueError(f"{path} must hold whole records; it ends within record {number}.")
    if _CHECKSUM.unpack(checksum)[0] != masked_crc32c(data):
        raise ValueError(f"{path} must hold the checksums of its records; that of {what} record {number} differs.")


def _is_gzip(path):
    return str(path).endswith(".gz")


def _compressed(raw, path):
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if _is_gzip(path) else contextlib.nullcontext(raw)
