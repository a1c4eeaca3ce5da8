"""Unpack archives into one folder and nowhere else, up to a size plausible for a checkpoint."""

import errno
import gzip
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import namedtuple
from contextlib import contextmanager
from pathlib import Path

MAX_BYTES = 64 << 30
MAX_MEMBERS = 100_000
# Weights hardly compress; zeros compress to 1/1032, and small files of zeros do no harm.
MAX_RATIO, RATIO_FROM = 1_000, 100_000_000

_BLOCK = 1 << 20  # bytes
# What zipfile and tarfile raise for damage and encryption, besides their own errors.
_DAMAGE: tuple[type[Exception], ...] = (zipfile.BadZipFile, gzip.BadGzipFile, tarfile.TarError, zlib.error, struct.error)
_DAMAGE += (EOFError, ValueError, OverflowError, RuntimeError, IndexError)

_Member = namedtuple("_Member", ["name", "size", "packed_size", "is_folder", "info"])


class _RefusedError(ValueError):
    """Why an archive is not unpacked."""


def unpack(archive, folder, origin):
    """Unpack a .zip or .tar.gz file, recognised by its first bytes.

    All members are checked before the first is written.

    Args:
        archive: the file.
        folder: the folder to create; it must not exist. After an error it may contain part of the archive.
        origin: the name of the archive in errors: its URL.

    Raises:
        ValueError: the archive is damaged or of another kind, a member is a link or would be written outside the folder, or the
            unpacked size is implausible.
        OSError: the folder cannot be written.
    """
    archive = Path(archive)
    try:
        with _opened(archive) as (members, open_member):
            members = list(_checked(members, archive.stat().st_size))
            Path(folder).mkdir()
            for member in members:
                _write(member, folder, open_member)
    except _RefusedError as error:
        raise ValueError(f"{origin} is not unpacked: {error}.") from None
    except _DAMAGE as error:
        raise _damaged(origin, error) from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a seek to a damaged offset, or, on Windows, an invalid file name
            raise
        raise _damaged(origin, error) from None


def _damaged(origin, error):
    reason = " ".join(str(error).split()).rstrip(".")
    return ValueError(f"{origin} is damaged or not a supported archive ({reason or type(error).__name__}).")


@contextmanager
def _opened(archive):
    """The members of an archive, an iterator, and a function that opens one."""
    with archive.open("rb") as file:
        magic = file.read(2)
    if magic == b"PK":
        with zipfile.ZipFile(archive) as file:
            yield _zip_members(file), file.open
    elif magic == b"\x1f\x8b":
        with _Stream(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as file:
            yield _tar_members(file, stream), file.extractfile
    else:
        raise _RefusedError("it is neither a .zip nor a .tar.gz file")


class _Stream(gzip.GzipFile):
    """Unpacked bytes, a few at a time: tarfile would read a header of any claimed length at once."""

    def read(self, size=-1):
        if not 0 <= size <= 16 * _BLOCK:
            raise _RefusedError("it has a header of implausible length")
        return super().read(size)


def _zip_members(file):
    for info in file.infolist():
        name = info.filename.replace("\\", "/")  # written by some Windows programs
        if stat.S_ISLNK(info.external_attr >> 16):
            raise _RefusedError(f"its member {name!r} is a link")
        # With other methods zipfile decompresses whole blocks, at any ratio.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _RefusedError(f"its member {name!r} is compressed by a method other than deflate")
        yield _Member(name, info.file_size, info.compress_size, name.endswith("/"), info)


def _tar_members(file, stream):
    for info in file:
        name = info.name.replace("\\", "/")
        if not (info.isdir() or info.isreg()) or info.issparse():
            raise _RefusedError(f"its member {name!r} is a link, a device or a sparse file")
        yield _Member(name, info.size, None, info.isdir(), info)
    # tarfile stops before the checksum at the end of the stream, the only one.
    while stream.read(_BLOCK):
        pass


def _checked(members, archive_size):
    total = 0
    for count, member in enumerate(members, 1):
        _check_name(member.name)
        total += member.size
        # A negative size would make tarfile loop.
        if member.size < 0 or total > MAX_BYTES or _is_bomb(total, archive_size):
            raise _RefusedError(f"up to {member.name!r} its members claim {total:,} bytes, implausible for {archive_size:,} packed")
        if member.packed_size is not None and _is_bomb(member.size, member.packed_size):
            raise _RefusedError(
                f"its member {member.name!r} claims {member.size:,} bytes, implausible for {member.packed_size:,} packed"
            )
        if count > MAX_MEMBERS:
            raise _RefusedError(f"it has more than {MAX_MEMBERS:,} members, {member.name!r} and others")
        yield member


def _is_bomb(size, packed_size):
    return size > RATIO_FROM and size > MAX_RATIO * packed_size


def _check_name(name):
    # Windows drops spaces and dots at the end of a name, so ".. " leaves the folder too; a colon marks a drive or a hidden stream.
    climbs = any(part not in ("", ".") and not part.rstrip(" .") for part in name.split("/"))
    if climbs or name.startswith("/") or ":" in name or "\0" in name:
        raise _RefusedError(f"its member {name!r} would be written outside the folder")


def _write(member, folder, open_member):
    path = Path(folder, *member.name.split("/"))
    try:
        (path if member.is_folder else path.parent).mkdir(parents=True, exist_ok=True)
        if not member.is_folder:
            with open_member(member.info) as source, path.open("xb") as target:
                shutil.copyfileobj(source, target, _BLOCK)
    except (FileExistsError, NotADirectoryError):  # the folder was empty before
        raise _RefusedError(f"its member {member.name!r} has the path of another member") from None
