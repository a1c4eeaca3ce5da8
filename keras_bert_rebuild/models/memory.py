"""How much memory this process may still take."""

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def available_bytes():
    """Bytes of main memory that can be had without swapping, or None where the system does not say."""
    known = [n for n in (_of_machine(), _of_cgroup()) if n is not None]
    return min(known, default=None)


def _of_machine():
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_cgroup():
    limit, used, kinds = (CGROUP / f"memory.{name}" for name in ("max", "current", "stat"))
    if not (limit.exists() and used.exists() and kinds.exists()):
        return None
    limit = limit.read_text().strip()
    if limit == "max":
        return None
    # What was read from files counts as used, and is given up where something else needs the room.
    counts = (line.split() for line in kinds.read_text().splitlines())
    files = sum(int(count) for kind, count in counts if kind in ("active_file", "inactive_file"))
    return max(int(limit) - int(used.read_text()) + files, 0)
