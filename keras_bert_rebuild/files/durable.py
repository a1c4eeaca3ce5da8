"""Files that are on the disk when they are there."""

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
    """Write a file beside its place and rename it, so that it is there whole, as it was, or not at all.

    Args:
        path: where the file shall be.
        write: a function of a binary file.
        claimed: whoever calls has a lock that keeps other writers out, and no other is taken.

    Raises:
        BusyError: another run is writing it.
        OSError: the file cannot be written; of a full disk it says so.
    """
    with written_file(path, claimed) as file:
        write(file)


def write_text(path, text, claimed=False):
    r"""The same of text, in UTF-8; half a pair of surrogates, as a name that is not UTF-8 has, becomes `\udc80`."""
    write_file(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")), claimed)


@contextlib.contextmanager
def written_file(path, claimed=False):
    """Yield a binary file that takes its place in the end; after an error all is as it was.

    Its name until then is one of its own, made new, so that no link that lies there is followed and no other writer's bytes get
    into it. While it is written its place is locked, unless it is `claimed`, and what killed runs left of it is removed.
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
    with naming_full_disk(path), lock as alone:
        if alone:
            remove_leftovers(path)
        yield


def _take_place(partial, path):
    sync_path(partial)
    os.chmod(partial, _mode(path))
    os.replace(partial, path)
    sync_path(path.parent)


@contextlib.contextmanager
def naming_full_disk(path):
    """Say of a full disk that it is one, and what was being written."""
    try:
        yield
    except OSError as error:
        words = str(error)
        if _WORDS in words:  # said further inside, of what exactly was being written
            raise
        if error.errno in FULL or "No space left" in words:  # libraries tell it in words only
            raise OSError(errno.ENOSPC, f"{_WORDS} {path}") from error
        raise


def partial_folder(path):
    """A new folder beside a place, of a name that nobody else has."""
    return Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".writing", dir=Path(path).parent))


def remove_leftovers(path):
    """Remove what killed writers of a place left beside it; for whoever holds its lock, since then no writer of it lives."""
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
    """The rights of the file that is replaced, or those that new files get."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        return 0o666 & ~umask()


def umask():
    """What new files of this process may not be."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
