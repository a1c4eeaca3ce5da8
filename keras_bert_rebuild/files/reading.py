"""Users' files: only regular ones are opened, and only what the limits allow is decompressed, parsed or mapped.

Formats that are read here are texts, JSON, NumPy's arrays and varints, the integers of protocol buffers and LevelDB.
"""

import io
import json
import math
import os
import re
import stat
from pathlib import Path

import numpy as np

from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable

# How a file of git's extension for large files begins if its content was not downloaded, and its largest size.
LFS_POINTER, LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024


def check_regular(path):
    """Refuse anything but a file or a link to one; a missing path is left to the code that opens it.

    Args:
        path: the file.

    Returns:
        Its size in bytes, 0 if it does not exist.

    Raises:
        ValueError: a named pipe, a socket, a device or a folder, or a git-lfs pointer instead of the file.
    """
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return 0
    except ValueError as error:  # a NUL character
        raise ValueError(f"{printable(path)} is not a file name: {error}.") from None
    if not stat.S_ISREG(state.st_mode):
        kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
        kind = next((word for is_kind, word in kinds if is_kind(state.st_mode)), "a device")
        raise ValueError(f"expected a file at {printable(path)}; it is {kind}.")
    if len(LFS_POINTER) < state.st_size < LFS_BYTES:
        with open(path, "rb") as file:
            if file.read(len(LFS_POINTER)) == LFS_POINTER:
                raise ValueError(f"expected a file at {printable(path)}; it is a git-lfs pointer to it: run git lfs pull there.")
    return state.st_size


def read_bytes(path, limit_name):
    """The bytes of a file.

    Args:
        path: the file.
        limit_name: the limit on its size, a name in `files.limits`.

    Raises:
        ValueError: it is not a file, or too large.
        OSError: reading fails.
    """
    check_limit(limit_name, check_regular(path), printable(path))
    return Path(path).read_bytes()


def read_text(path, limit_name, what="text", encoding="utf-8"):
    """The text of a file.

    Args:
        path: the file.
        limit_name: the limit on its size, a name in `files.limits`.
        what: the format, for the error.
        encoding: "utf-8", or "utf-8-sig" to allow a byte order mark.

    Raises:
        ValueError: it is not a file, too large, or in another encoding.
        OSError: reading fails.
    """
    content = read_bytes(path, limit_name)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        seems = "; it begins like UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise ValueError(f"{printable(path)} must be {what} in UTF-8; byte {error.start} is not{seems}.") from None


class BoundedUnpacking(io.RawIOBase):
    """The decompressed bytes of a file; raises an error if they exceed a multiple of its size: a kilobyte can expand to gigabytes.

    Args:
        stream: the stream of decompressed bytes, such as `lzma.open` returns.
        path: the file, for its size and for errors.
    """

    def __init__(self, stream, path):
        self._stream, self._path, self._done = stream, path, 0
        self._maximum = max(limit("unpacked_floor_bytes"), limit("unpacked_ratio") * Path(path).stat().st_size)

    def readable(self):
        return True

    def readinto(self, buffer):
        """Decompress the next bytes.

        Raises:
            ValueError: the limit is exceeded.
        """
        content = self._stream.read(len(buffer))
        self._done += len(content)
        if self._done > self._maximum:
            raise ValueError(
                f"{printable(self._path)} decompresses to over {self._maximum:,} bytes, {limit('unpacked_ratio')} times its size, "
                "which no text does: decompress it first if this is intended."
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self):
        self._stream.close()
        super().close()


def parse_json(text, where, values_limit="json_values"):
    """The value of a JSON text.

    Args:
        text: a string.
        where: the file, for errors.
        values_limit: the limit on the number of values, a name in `files.limits`.

    Raises:
        ValueError: it is not JSON, is nested too deeply, has too many values or an integer of thousands of digits.
    """
    if not text or text.isspace():
        raise ValueError(f"{printable(where)} must be JSON in UTF-8; it is empty.")
    # Checked before parsing: each of these characters begins a value or is part of a string.
    check_limit(values_limit, sum(map(text.count, ",:[{")) if len(text) > 1 << 16 else 0, printable(where))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # JSONDecodeError and too many digits are ValueErrors
        raise ValueError(f"{printable(where)} must be JSON in UTF-8: {printable(error)}.") from None
    check_depth(value, where)
    return value


def check_depth(value, where, name="json_depth"):
    """Refuse lists and dictionaries nested too deeply."""
    level, depth = [value] if isinstance(value, (list, dict)) else [], 0
    while level:
        depth += 1
        check_limit(name, depth, f"the nesting of {printable(where)}")
        insides = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for inside in insides for inner in inside if isinstance(inner, (list, dict))]


def parsed_json(path):
    """The content of a JSON file.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file is not JSON in UTF-8, or exceeds the limits of `files.limits`.
    """
    return parse_json(read_text(path, "json_bytes", "JSON"), path)


def json_object(path):
    """The dictionary in a JSON file; empty if the file does not exist.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file has something else.
    """
    values = parsed_json(path) if Path(path).exists() else {}
    if not isinstance(values, dict):
        raise ValueError(f"{printable(path)} must be a JSON object; got {type(values).__name__}.")
    return values


_NPY_BEGIN = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(rb"\{'descr': '([^']{1,20})', 'fortran_order': (True|False), 'shape': \(([\d, ]{0,100})\), \} *\n")


def mapped_array(file, dtype, shape):
    """The memory-mapped array in a file.

    Args:
        file: the file, open for reading bytes, at its beginning.
        dtype: the dtype that it must have.
        shape: the shape that it must have, with None for sizes that may be any.

    Raises:
        ValueError: the file is damaged, or has another dtype, shape or number of bytes.
    """
    begin = file.read(len(_NPY_BEGIN) + 2)
    header = _NPY_HEADER.fullmatch(file.read(int.from_bytes(begin[-2:], "little"))) if begin[:-2] == _NPY_BEGIN else None
    if header is None:
        raise ValueError(f"expected an array in NumPy's format; {printable(file.name)} is damaged or something else.")
    found, sizes = header[1].decode("latin-1"), tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    fits = found == np.lib.format.dtype_to_descr(np.dtype(dtype)) and len(sizes) == len(shape)
    if not fits or any(size not in (None, given) for size, given in zip(shape, sizes, strict=True)):
        raise ValueError(
            f"expected an array of dtype {dtype} and shape {shape}; {printable(file.name)} has {printable(found)} and {sizes}."
        )
    content = os.fstat(file.fileno()).st_size - file.tell()
    if content != math.prod(sizes) * np.dtype(dtype).itemsize:
        raise ValueError(f"expected {sizes} numbers of dtype {dtype}; {printable(file.name)} has {content:,} bytes of them.")
    order = "F" if header[2] == b"True" else "C"
    # A plain array over the map, since np.memmap slows down every access.
    return np.asarray(np.memmap(file, dtype, "r", file.tell(), sizes, order))


def varint(number):
    """The bytes of an integer of at least 0: seven bits per byte, lowest first.

    Reference: https://protobuf.dev/programming-guides/encoding/.
    """
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(content, at):
    """The integer of a `varint`, and the offset of the byte after it.

    Raises:
        IndexError: the content ends within the integer, or the integer is longer than 64 bits.
    """
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError("a number is longer than 64 bits")


def json_bytes(values):
    """Plain values as the content of a JSON file."""
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
