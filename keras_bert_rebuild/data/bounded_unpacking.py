"""Compressed files, unpacked as far as their size allows."""

import io
from pathlib import Path

from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.files.printable import printable


class BoundedUnpacking(io.RawIOBase):
    """The unpacked bytes of a file, and an error where they are many times those of the file: a kilobyte can hold gigabytes.

    Args:
        stream: what unpacks, such as `lzma.open` gives.
        path: the file, for its size and for errors.
    """

    def __init__(self, stream, path):
        self._stream, self._path, self._done = stream, path, 0
        self._most = max(limit("unpacked_floor_bytes"), limit("unpacked_ratio") * Path(path).stat().st_size)

    def readable(self):
        return True

    def readinto(self, buffer):
        """Unpack the next bytes.

        Raises:
            ValueError: more than the limit.
        """
        content = self._stream.read(len(buffer))
        self._done += len(content)
        if self._done > self._most:
            raise ValueError(
                f"{printable(self._path)} unpacks to over {self._most:,} bytes, {limit('unpacked_ratio')} times its size, as no "
                "text does: unpack it first, if it is meant to."
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self):
        self._stream.close()
        super().close()
