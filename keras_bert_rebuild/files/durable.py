"""Files that are on the disk as soon as they have their names."""

import contextlib
import errno
import os
import re
import shutil
import tempfile
from pathlib import Path

from keras_bert_rebuild.files.locked import lock_file, locked, short_name

FULL = {errno.ENOSPC, errno.EDQUOT} if hasattr(errno, "EDQUOT") else {errno.ENOSPC}
_WORDS = f"{os.strerror(errno.ENOSPC)} while writing"


def sync_path(path):
    """Wait until a closed file, or the names in a folder where the system can open one at all, are on the disk."""
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
    """Write a file under a temporary name and rename it, so that it is complete, as it was, or absent.

    Args:
        path: the path of the file.
        write: a function of a binary file.
        claimed: whether the caller holds a lock that keeps other writers out; then no other lock is taken.

    Raises:
        BusyError: another run is writing it.
        OSError: the file cannot be written; the error names a full disk.
    """
    with written_file(path, claimed) as file:
        write(file)


def write_text(path, text, claimed=False):
    r"""The same for text, in UTF-8; a lone surrogate, as in a name that is not UTF-8, becomes `\udc80`."""
    write_file(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")), claimed)


@contextlib.contextmanager
def written_file(path, claimed=False):
    """Yield a binary file that is moved to its path in the end; after an error nothing has changed.

    Until then it has a new and unique name, so that no existing link is followed and no other writer writes into it. While it is
    written the path is locked, unless it is `claimed`, and what killed runs left next to it is removed.
    """
    path = Path(path)
    with _alone(path, claimed):
        handle, partial = tempfile.mkstemp(prefix=_prefix(path), suffix=".writing", dir=path.parent)
        try:
            with open(handle, "wb") as file:
                yield file
            _take_place(partial, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial)


@contextlib.contextmanager
def written_path(path, claimed=False):
    """The same for what writes to a path: yield one of the same name, in a new folder that a kill may leave behind, empty."""
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
    """Name a full disk in the error, and what was being written."""
    try:
        yield
    except OSError as error:
        words = str(error)
        if _WORDS in words:  # an inner call has named what was being written
            raise
        if error.errno in FULL or "No space left" in words:  # libraries report it only in the message
            raise OSError(errno.ENOSPC, f"{_WORDS} {path}") from error
        raise


def partial_folder(path):
    """A new folder next to a path, with a unique name."""
    return Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".writing", dir=Path(path).parent))


def remove_leftovers(path):
    """Remove what killed writers of a path left next to it; the caller holds its lock, so that no writer of it is running."""
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
    """The permissions of the file that is replaced, or those of new files."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        return 0o666 & ~umask()


def umask():
    """The permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
