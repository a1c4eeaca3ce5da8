"""Compressed files, unpacked up to a limit that grows with their size."""

import io
from pathlib import Path

from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.files.printable import printable


class BoundedUnpacking(io.RawIOBase):
    """The unpacked bytes of a file, and an error if they are many times the size of the file: a kilobyte can hold gigabytes.

    Args:
        stream: the stream of unpacked bytes, such as `lzma.open` returns.
        path: the file, for its size and for errors.
    """

    def __init__(self, stream, path):
        self._stream, self._path, self._done = stream, path, 0
        self._maximum = max(limit("unpacked_floor_bytes"), limit("unpacked_ratio") * Path(path).stat().st_size)

    def readable(self):
        return True

    def readinto(self, buffer):
        """Unpack the next bytes.

        Raises:
            ValueError: more than the limit.
        """
        content = self._stream.read(len(buffer))
        self._done += len(content)
        if self._done > self._maximum:
            raise ValueError(
                f"{printable(self._path)} unpacks to over {self._maximum:,} bytes, {limit('unpacked_ratio')} times its size, "
                "which no text does: unpack it first if this is intended."
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self):
        self._stream.close()
        super().close()
