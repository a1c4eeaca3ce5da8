"""A member of a zip file as a file, without its bytes in memory if it is not compressed."""

import io
import struct
import zipfile

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")


def opened_member(archive, name):
    """A seekable file of the bytes of a member.

    Args:
        archive: an open `zipfile.ZipFile`.
        name: of the member.

    Raises:
        zipfile.BadZipFile: it is damaged.
    """
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        return io.BytesIO(archive.read(member))
    with open(archive.filename, "rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER.size)
    if len(header) != _LOCAL_HEADER.size:
        raise zipfile.BadZipFile(f"{name} begins after the end of the file")
    *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    return _FilePart(archive.filename, member.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes, member.file_size)


class _FilePart(io.RawIOBase):
    """A part of a file."""

    def __init__(self, path, start, size):
        self._file = open(path, "rb")  # noqa: SIM115  closed with this one
        self._start, self._size, self._at = start, size, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._at

    def seek(self, offset, whence=io.SEEK_SET):
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer):
        view = memoryview(buffer).cast("B")[: max(0, self._size - self._at)]
        self._file.seek(self._start + self._at)
        count = self._file.readinto(view)
        self._at += count
        return count

    def close(self):
        self._file.close()
        super().close()
