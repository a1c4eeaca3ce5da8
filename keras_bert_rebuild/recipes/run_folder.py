"""The folder of a run: its settings, the versions, and whether this is the same run again.

The commit of a folder, read from git's own files.

Git itself is not run: it obeys the configuration of the repository, which may name programs to run (`core.fsmonitor`, filters), and
a folder unpacked from an archive is not trusted. Whether files differ from the commit is not checked.

Reference: https://git-scm.com/docs/gitrepository-layout.
"""

import os
import platform
import re
from importlib import metadata
from pathlib import Path

import keras

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular, read_text
from keras_bert_rebuild.files.yaml_files import read_yaml, write_yaml
from keras_bert_rebuild.version import __version__

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_REF = re.compile(r"ref: (refs/[^\s\x00-\x1f~^:?*\[\\]+)")
_PACKED_BYTES = 8 << 20  # fifty thousand references


def git_revision(folder=None):
    """The commit that a folder has checked out.

    Args:
        folder: a folder in the repository; None for the working directory of the process.

    Returns:
        40 or 64 hexadecimal digits; None outside a repository, or if its files are not laid out as expected.
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
    """The folder named after a keyword in a file of one line; None if there is none."""
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


# The settings that may change when a run is resumed: they do not change the weights, except for the rounding of other devices.
FREE = (
    "log_steps",
    "evaluate_steps",
    "evaluation_steps",
    "save_steps",
    "probes",  # the digests of their files are compared, whatever their paths
    "probe_steps",
    "keep_checkpoints",
    "save_in_background",
    "workers",
    "log_to",
    "verify",
    "distribute",
    "model_devices",
)
# The packages whose versions are recorded, if they are installed.
PACKAGES = ("keras", "tensorflow", "jax", "jaxlib", "torch", "numpy")


class RunFolder:
    """A folder with `settings.yaml` and `versions.yaml`, made now or by an earlier start of the same run.

    Args:
        path: the folder.
        settings: the resolved settings, plain values by name.
        start: further facts to record about this start, plain values by name.

    Raises:
        ValueError: the folder holds other files, or a run on another corpus or with other settings; the error lists what differs.
    """

    def __init__(self, path, settings, start=None):
        self.path = Path(path)
        file = self.path / "settings.yaml"
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"expected a folder for the run; {self.path} is a file.")
        self.resumes = file.is_file()
        if self.resumes:
            _check_same(read_yaml(file), settings, self.path)
        elif self.path.is_dir() and any(not name.startswith(".") for name in os.listdir(self.path)):
            raise ValueError(
                f"expected an empty folder or the folder of a run; {self.path} holds other files and no settings.yaml."
            )
        self.path.mkdir(parents=True, exist_ok=True)
        write_yaml(file, settings)
        self._versions = self.path / "versions.yaml"
        self._write([*_starts(self._versions), {**versions(), **(start or {})}])

    def record(self, facts):
        """Record further facts about this start, plain values by name."""
        *earlier, start = _starts(self._versions)
        if {**start, **facts} != start:
            self._write([*earlier, {**start, **facts}])

    def _write(self, starts):
        write_yaml(self._versions, {"starts": starts})


def versions():
    """The environment of this process: versions by package, the backend, and the commit of its working directory."""
    environment = {"keras_bert_rebuild": __version__, "python": platform.python_version(), "backend": keras.config.backend()}
    for name in PACKAGES:
        try:
            environment[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {**environment, "git": git_revision()}


def _starts(file):
    """The records of earlier starts of the run."""
    starts = read_yaml(file).get("starts", []) if file.exists() else []
    if not isinstance(starts, list):
        raise ValueError(f"{printable(file)} must hold a list of starts; got {type(starts).__name__}.")
    return starts


def _check_same(before, now, path):
    # An earlier version recorded less about the corpus; only what it recorded is compared.
    recorded, corpus = (values["corpus"] if isinstance(values.get("corpus"), dict) else {} for values in (before, now))
    refuse_other(path, "a run on another corpus", "corpus", [(name, value, corpus.get(name)) for name, value in recorded.items()])
    # A switch that an earlier version did not have was off.
    names = [name for name in {**before, **now} if name not in (*FREE, "corpus") and (name in before or now[name] is not False)]
    values = [(name, before.get(name), now.get(name)) for name in names]
    refuse_other(path, "a run with other settings", "settings", values)


def refuse_other(path, what, same, values):
    """Refuse a folder that holds something else than what is asked for now.

    Args:
        path: the folder.
        what: what it holds, for the error.
        same: what the user should keep to go on in this folder.
        values: what is compared: its name, and the earlier and the present value.

    Raises:
        ValueError: two values differ; the error lists all that do.
    """
    listed = "; ".join(f"{name} was {_short(before)} and is {_short(now)}" for name, before, now in values if before != now)
    if listed:
        raise ValueError(f"{path} holds {what}: {listed}. Choose another folder, or the same {same}.")


def _short(value):
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
