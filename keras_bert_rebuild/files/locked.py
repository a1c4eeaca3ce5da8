"""One writer at a time: a lock that ends with its process, and the name of its holder in a file beside it."""

import contextlib
import errno
import json
import os
import stat
import threading
import time
from pathlib import Path

from filelock import FileLock, Timeout

# Errors of file systems without locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}

# The start of the name of a holder; up to version 0.2 it was in the lock file itself.
_BEGIN = b'{"process": '

# What this process is doing, for errors in other processes; the command line sets its verb.
_doing = ["a program"]

# The locks of this process, and the process and thread that hold each. A forked process inherits this table, but no locks.
_held: dict[str, tuple[tuple[int, int], FileLock]] = {}


class BusyError(OSError):
    """Another run is writing the same output."""


def now_doing(what):
    """Set what this process is doing, such as "`keras-bert embed`", for errors in processes that wait for it."""
    _doing[0] = what


def lock_file(path):
    """The file that is locked while `path` is written: next to it, since swapping a folder moves everything inside."""
    path = Path(path)
    return path.with_name(f".{short_name(path.name)}.lock")


def short_name(name):
    """The name, shortened to leave room for a prefix and suffix within the 255 bytes of file systems."""
    return name if len(os.fsencode(name)) <= 180 else os.fsdecode(os.fsencode(name)[:180])


@contextlib.contextmanager
def locked(file, what=None, wait=0.0):
    """Hold a lock for the duration of the block; reentrant within a thread.

    It is a system lock on an open file, so it ends with the process, however that ends. A file system without locks gives none.

    Args:
        file: the lock file, created and removed by the lock; its folder must exist.
        what: the output, for the error.
        wait: seconds to wait for another holder.

    Yields:
        Whether a lock is held.

    Raises:
        BusyError: another run holds the lock; the error names that run.
        OSError: the file cannot be created.
    """
    key = acquire(file, what, wait)
    try:
        yield key is not None
    finally:
        if key is not None:
            release(key)


def acquire(file, what=None, wait=0.0):
    """Acquire a lock as `locked` does; returns the key for `release`, or None if there are no locks."""
    # The real path of the folder; a link at the name of the lock file itself is not followed.
    file = Path(os.path.realpath(Path(file).parent), Path(file).name)
    key = str(file)
    owner, lock = _held.get(key, (None, None))
    if owner == _me():
        lock.acquire()
        return key
    # Any thread may release a lock, so what it counts is not of a thread.
    lock = FileLock(file, thread_local=False, fallback_to_soft=False)
    try:
        if not file.parent.is_dir():  # the package filelock would make it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        for ours in (file, _holder_file(file)):
            _check_ours(ours)
        lock.acquire(timeout=wait)
    except Timeout:
        raise BusyError(_sentence(file, what)) from None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            file.unlink(missing_ok=True)
            return None
        raise type(error)(error.errno, error.strerror or str(error), str(what or file)) from None
    _held[key] = (_me(), lock)
    _write_holder(file)
    return key


def release(key):
    """Release a lock; the last release removes its files."""
    (process, _), lock = _held[key]
    if process != os.getpid():
        del _held[key]
        return
    if lock.lock_counter == 1:
        del _held[key]
        # While it is held: whoever waits for a file that is removed locks the next one of that name.
        for file in (_holder_file(Path(key)), Path(key)):
            with contextlib.suppress(OSError):  # Windows cannot remove an open file; the package filelock does
                file.unlink()
    lock.release()


def _me():
    return os.getpid(), threading.get_ident()


def _holder_file(file):
    """The file with the name of the holder of a lock file, which on Windows others cannot read while it is locked."""
    return file.with_name(f"{file.name}.holder")


def _check_ours(file):
    """Refuse a file that is the user's file or a link to one: it would be lost."""
    try:
        about = file.lstat()
        ours = stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and (not about.st_size or _begins_ours(file))
    except FileNotFoundError:
        return
    if not ours:
        raise FileExistsError(errno.EEXIST, f"expected a lock file or nothing at {file}; it is another file")


def _begins_ours(file):
    with open(file, "rb") as content:
        return content.read(len(_BEGIN)) == _BEGIN


def _write_holder(file):
    holder = {"process": os.getpid(), "doing": _doing[0], "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with contextlib.suppress(OSError):  # the lock works without it, on a full disk
        _holder_file(file).unlink(missing_ok=True)  # of a killed process
        with open(_holder_file(file), "x", encoding="utf-8") as beside:
            json.dump(holder, beside)


def _sentence(file, what):
    try:
        holder = json.loads(_holder_file(file).read_bytes()[:1000])
        who = f"{holder['doing']}, process {int(holder['process'])}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return f"{what or file.parent} is being written by {who}: wait until it has finished, or choose another output."
