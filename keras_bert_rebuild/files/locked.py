"""One writer at a time: a lock that dies with its process and tells who has it."""

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

# Windows keeps others from reading what is locked: a byte far behind the words.
_BYTE = 1 << 30

# What a file system without locks says.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}

# How the words in a lock begin.
_BEGIN = b'{"process": '

# What this process does, for the sentence of another one; the command line says its verb.
_doing = ["a program"]

# The locks of this process: which process and thread has each, its descriptor, and how often it was taken. A process that was
# forked off has a copy of this and no lock.
_held: dict[str, tuple[tuple[int, int], int, int]] = {}


class BusyError(OSError):
    """Another run is writing there."""


def now_doing(what):
    """Say what this process does, such as "`keras-bert embed`": others are told who is in their way."""
    _doing[0] = what


def lock_file(path):
    """The file that is locked while `path` is written: beside it, since a folder that is swapped takes along what is in it."""
    path = Path(path)
    return path.with_name(f".{short_name(path.name)}.lock")


def short_name(name):
    """A name that leaves room for what is put before and behind it: file systems take 255 bytes."""
    return name if len(os.fsencode(name)) <= 180 else os.fsdecode(os.fsencode(name)[:180])


@contextlib.contextmanager
def locked(file, what=None, wait=0.0):
    """Hold a lock while the block runs; the thread that has it may take it again.

    The lock is the system's on an open file, so that it ends with its process, however that ends. Where a file system has no locks
    there is none.

    Args:
        file: the file of the lock, made for it and removed behind it; its folder must be there.
        what: the output, for the sentence.
        wait: seconds to wait for another one.

    Yields:
        Whether there is a lock.

    Raises:
        BusyError: another run has it, which the sentence names.
        OSError: the file cannot be made.
    """
    take = acquire(file, what, wait)
    try:
        yield take is not None
    finally:
        if take is not None:
            release(take)


def acquire(file, what=None, wait=0.0):
    """Take a lock as `locked` does and return what `release` takes, or None where there are no locks."""
    # The same place by whatever way; a link at the name of the lock itself is not followed.
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
    _write_words(descriptor)
    return key


def release(key):
    """Give back a lock; the file goes with the last of those who took it."""
    owner, descriptor, count = _held[key]
    if count > 1:
        _held[key] = (owner, descriptor, count - 1)
        return
    del _held[key]
    if owner[0] != os.getpid():
        return
    with contextlib.suppress(OSError):  # Windows removes no open file; whoever takes the lock next removes it
        os.unlink(key)
    os.close(descriptor)


def _me():
    return os.getpid(), threading.get_ident()


def _open(file):
    """An open file with the lock on it; None if it was removed in between. BlockingIOError if another one has it."""
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
            # Its last holder removes it: a lock on a file without a name keeps nobody out.
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
    """Refuse a file of the user, or another name of one, that lies where the lock should be: it would be emptied."""
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1 or os.read(descriptor, len(_BEGIN)) not in (b"", _BEGIN):
        raise FileExistsError(errno.EEXIST, f"{file} is in the way of a lock and no lock")


def _write_words(descriptor):
    words = {"process": os.getpid(), "doing": _doing[0], "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with contextlib.suppress(OSError):  # of a full disk; the lock holds without words
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(words).encode())


def _sentence(file, what):
    try:
        words = json.loads(file.read_bytes()[:1000])
        who = f"{words['doing']}, process {int(words['process'])}, since {words['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    place = what or file.parent
    return f"{place} is being written by {who}: wait until it has ended, or choose another output."
