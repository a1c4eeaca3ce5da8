"""Exchange two names, in one step where the system can."""

import ctypes
import errno
import os
import sys

_HERE = -100  # AT_FDCWD of Linux
_EXCHANGE, _SWAP = 2, 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def exchange(one, other):
    """Exchange the names of two files or folders of one file system, atomically.

    Returns:
        Whether it was done: not every system and file system can.

    Raises:
        OSError: it is not permitted.
    """
    names = os.fsencode(one), os.fsencode(other)
    system = ctypes.CDLL(None, use_errno=True) if sys.platform in ("linux", "darwin") else None
    if hasattr(system, "renameat2"):
        failed = system.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    elif hasattr(system, "renamex_np"):
        failed = system.renamex_np(*names, _SWAP)
    else:
        return False
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))
