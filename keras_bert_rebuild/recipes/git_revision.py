"""The commit of a folder, read from git's own files.

Git itself is not run: it would follow the settings of the repository, which may name programs (`core.fsmonitor`, filters), and in a
folder from an archive these are not trusted. Whether files differ from the commit is not checked.

Reference: https://git-scm.com/docs/gitrepository-layout.
"""

import re
from pathlib import Path

from keras_bert_rebuild.files.regular import check_regular, read_text

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_REF = re.compile(r"ref: (refs/[^\s\x00-\x1f~^:?*\[\\]+)")
_PACKED_BYTES = 8 << 20  # fifty thousand references


def git_revision(folder=None):
    """The commit that a folder has checked out.

    Args:
        folder: a folder in the repository; None for the folder that the process was started in.

    Returns:
        40 or 64 hexadecimal digits; None outside a repository, or if its files are not the usual ones.
    """
    try:
        start = Path.cwd() if folder is None else Path(folder).absolute()
        git = next((path for path in (parent / ".git" for parent in (start, *start.parents)) if path.exists()), None)
        return None if git is None else _commit(git)
    except (OSError, ValueError):
        return None


def _commit(git):
    folder = git if git.is_dir() else _named(git, "gitdir: ")
    if folder is None:
        return None
    head = _line(folder / "HEAD")
    if _COMMIT.fullmatch(head):
        return head
    ref = _REF.fullmatch(head)
    if ref is None or ".." in ref[1]:
        return None
    common = folder / "commondir"  # if there are several worktrees
    shared = _named(common, "") if common.exists() else folder
    if shared is None:
        return None
    for path in (folder / ref[1], shared / ref[1]):
        if path.exists():
            commit = _line(path)
            return commit if _COMMIT.fullmatch(commit) else None
    return _packed(shared / "packed-refs", ref[1])


def _named(path, word):
    """The folder that the only line of a file names, after a word; None if it names none."""
    line = _line(path)
    folder = path.parent / line.removeprefix(word)
    return folder if line.startswith(word) and folder.is_dir() else None


def _packed(path, ref):
    if not 0 < check_regular(path) <= _PACKED_BYTES:
        return None
    for line in path.read_text(encoding="utf-8").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _COMMIT.fullmatch(commit):
            return commit
    return None


def _line(path):
    return read_text(path, "settings_bytes").strip()
