"""Atomic files: a file gets its name only when its content is on disk. And files of arrays, mapped into memory."""

import contextlib
import errno
import math
import os
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np

from keras_bert_rebuild.files.locked import lock_file, locked, short_name
from keras_bert_rebuild.files.printable import printable

# The disk or the user's part of it is full; a file is larger, or more files are open, than the system allows.
FULL_DISK = tuple(getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE") if hasattr(errno, name))
_WHILE = " while writing "


def sync_path(path):
    """Flush a closed file, or the entries of a folder if the system can open folders, to disk."""
    is_folder = os.path.isdir(path)
    if is_folder and not hasattr(os, "O_DIRECTORY"):
        return
    flags = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDONLY if os.name == "posix" else os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path, write, claimed=False):
    """Write a file under a temporary name and rename it, so that readers see the old file, the new one or none.

    Args:
        path: the path of the file.
        write: a function that writes to a binary file.
        claimed: whether the caller holds the lock of the path; then no further lock is taken.

    Raises:
        BusyError: another run is writing the file.
        OSError: writing fails; a full disk and limits of the system are reported as such, with the path.
    """
    with written_file(path, claimed) as file:
        write(file)


def write_text(path, text, claimed=False):
    r"""`write_file` for text, in UTF-8; a lone surrogate, as in a name that is not UTF-8, becomes `\udc80`."""
    write_file(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")), claimed)


@contextlib.contextmanager
def written_file(path, claimed=False):
    """Yield a binary file that is renamed to its path at the end; after an error nothing has changed.

    It has a new, unique name until then, so that no existing link is followed and no other writer interferes. Meanwhile the path is
    locked, unless `claimed`, and leftovers of killed runs next to it are removed.
    """
    path = Path(path)
    with _alone(path, claimed):
        handle, partial = tempfile.mkstemp(prefix=_prefix(path), suffix=".writing", dir=path.parent)
        try:
            # Not "wb", to which `numpy.save` writes with `tofile`: that cuts an array off without an error, or without its cause.
            with open(handle, "w+b") as file:
                yield file
            _take_place(partial, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial)


@contextlib.contextmanager
def written_path(path, claimed=False):
    """As `written_file`, for code that takes a path: yields a path of that name in a new folder, which a kill may leave empty."""
    path = Path(path)
    with _alone(path, claimed):
        folder = partial_folder(path)
        try:
            yield folder / path.name
            _take_place(folder / path.name, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(path, claimed):
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    lock = contextlib.nullcontext(True) if claimed else locked(lock_file(path), path)
    with naming_full_disk(path), lock as has_lock:
        if has_lock:
            remove_leftovers(path)
        yield


def _take_place(partial, path):
    sync_path(partial)
    os.chmod(partial, _mode(path))
    os.replace(partial, path)
    sync_path(path.parent)


@contextlib.contextmanager
def naming_full_disk(path):
    """Add what was being written to an error of a full disk or of a limit of the system, such as that of open files."""
    try:
        yield
    except OSError as error:
        words = str(error)
        # Libraries report it only in the message.
        code = next((code for code in FULL_DISK if error.errno == code or os.strerror(code) in words), None)
        if code is None or _WHILE in words:  # an inner call has already added it
            raise
        raise OSError(code, f"{os.strerror(code)}{_WHILE}{path}") from error


def partial_folder(path):
    """A new folder next to a path, with a unique name."""
    return Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".writing", dir=Path(path).parent))


def remove_leftovers(path):
    """Remove what killed writers of a path left next to it; the caller holds its lock, so no writer is running."""
    ours = re.compile(re.escape(_prefix(path)) + r"[a-z0-9_]{8}\.writing")
    for entry in os.scandir(Path(path).parent):
        if ours.fullmatch(entry.name):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def _prefix(path):
    return f".{short_name(Path(path).name)}."


def _mode(path):
    """The permissions of the file that is replaced, or the default for new files."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        return 0o666 & ~umask()


def umask():
    """The process's umask: the permissions that its new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# What `numpy.save` writes; a header is compared with it, and never evaluated.
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
    descr, sizes = header[1].decode("latin-1"), tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    fits = descr == np.lib.format.dtype_to_descr(np.dtype(dtype)) and len(sizes) == len(shape)
    if not fits or any(size not in (None, expected) for size, expected in zip(shape, sizes, strict=True)):
        raise ValueError(
            f"expected an array of dtype {dtype} and shape {shape}; {printable(file.name)} has {printable(descr)} and {sizes}."
        )
    content = os.fstat(file.fileno()).st_size - file.tell()
    if content != math.prod(sizes) * np.dtype(dtype).itemsize:
        raise ValueError(f"expected {sizes} numbers of dtype {dtype}; {printable(file.name)} has {content:,} bytes of them.")
    order = "F" if header[2] == b"True" else "C"
    # A plain array over the map, since np.memmap slows down every access.
    return np.asarray(np.memmap(file, dtype, "r", file.tell(), sizes, order))
