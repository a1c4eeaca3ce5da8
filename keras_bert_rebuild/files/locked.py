"""One writer at a time: a lock that ends with its process and identifies its holder."""

import contextlib
import errno
import json
import os
import stat
import sys
import threading
import time
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Windows forbids others to read locked bytes, so the lock is on a byte far beyond the content.
_BYTE = 1 << 30

# Errors of file systems without locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}

# The start of the content of a lock file.
_BEGIN = b'{"process": '

# What this process is doing, for errors in other processes; the command line sets its verb.
_doing = ["a program"]

# The locks of this process: the process and thread that hold each, its descriptor, and how often it was acquired. A forked process
# inherits this table, but no locks.
_held: dict[str, tuple[tuple[int, int], int, int]] = {}


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
    key, until = str(file), time.monotonic() + wait
    owner, _, count = _held.get(key, (None, 0, 0))
    if owner == _me():
        _held[key] = (owner, _held[key][1], count + 1)
        return key
    while True:
        try:
            descriptor = _open(file)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(0.05)
                continue
            raise BusyError(_sentence(file, what)) from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                file.unlink(missing_ok=True)
                return None
            raise type(error)(error.errno, error.strerror or str(error), str(what or file)) from None
        if descriptor is not None:
            break
    _held[key] = (_me(), descriptor, 1)
    _write_holder(descriptor)
    return key


def release(key):
    """Release a lock; the last release removes its file."""
    owner, descriptor, count = _held[key]
    if count > 1:
        _held[key] = (owner, descriptor, count - 1)
        return
    del _held[key]
    if owner[0] != os.getpid():
        return
    with contextlib.suppress(OSError):  # Windows cannot remove an open file; the next holder does
        os.unlink(key)
    os.close(descriptor)


def _me():
    return os.getpid(), threading.get_ident()


def _open(file):
    """An open, locked file; None if it was removed in between. BlockingIOError if another process holds the lock."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o644)
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except PermissionError:
                raise BlockingIOError from None
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder removed it: a lock on a file without a name excludes nobody.
            if not _is_name_of(file, descriptor):
                os.close(descriptor)
                return None
        _check_ours(descriptor, file)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_name_of(file, descriptor):
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _check_ours(descriptor, file):
    """Refuse a lock file that is the user's file or a link to one: its content would be lost."""
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1 or os.read(descriptor, len(_BEGIN)) not in (b"", _BEGIN):
        raise FileExistsError(errno.EEXIST, f"expected a lock file or nothing at {file}; it is another file")


def _write_holder(descriptor):
    holder = {"process": os.getpid(), "doing": _doing[0], "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with contextlib.suppress(OSError):  # the lock works without content, on a full disk
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(holder).encode())


def _sentence(file, what):
    try:
        holder = json.loads(file.read_bytes()[:1000])
        who = f"{holder['doing']}, process {int(holder['process'])}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return f"{what or file.parent} is being written by {who}: wait until it has finished, or choose another output."
