"""Open users' files only if they are regular files, and decompress only up to a limit."""

import io
import os
import stat
from pathlib import Path

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
