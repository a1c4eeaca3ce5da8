"""The folder of a run: its settings, the versions, and whether this is the same run again; reading and writing of YAML.

The YAML may be untrusted: plain values, bounded, without anchors, and with errors of one sentence.

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
import yaml

from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular, read_text
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
    "tensorboard",
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
        starts = self.path / "versions.yaml"
        known = _starts(starts)
        write_yaml(starts, {"starts": [*known, {**versions(), **(start or {})}]})


def versions():
    """The environment of this process: versions by package, the backend, and the commit of its working directory."""
    found = {"keras_bert_rebuild": __version__, "python": platform.python_version(), "backend": keras.config.backend()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {**found, "git": git_revision()}


def read_yaml(path):
    """The mapping in a YAML file.

    Raises:
        ValueError: there is no such file, it is not YAML, or its top level is not a mapping.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"expected a YAML file of settings at {printable(path)}; it does not exist.")
    values = parse_yaml(read_text(path, "yaml_bytes", "YAML"), path)
    if values is not None and not isinstance(values, dict):
        raise ValueError(f"{path} must hold names and values; got {type(values).__name__}.")
    return values or {}


def write_yaml(path, values):
    """Write a mapping, atomically."""
    write_text(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True), claimed=True)


# The loader in C is ten times as fast; both load only plain values.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The loader in C refuses lone surrogates, which names of files that are not UTF-8 contain.
HALF = re.compile(r"\\u[dD][89a-fA-F]")
SLOWLY_CHARACTERS = 1 << 16


def parse_yaml(text, where):
    """The value of a YAML text: numbers, strings, lists and dictionaries.

    Args:
        text: a string.
        where: the file, for errors.

    Raises:
        ValueError: it is not YAML, is nested too deeply, or has an anchor or alias, which could expand to a billion values.
    """
    loader = yaml.SafeLoader if len(text) <= SLOWLY_CHARACTERS and HALF.search(text) else LOADER
    try:
        _check_events(text, loader, where)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    except (ValueError, OverflowError, RecursionError) as error:  # a number of thousands of digits, a thirteenth month
        raise ValueError(f"{printable(where)} must be YAML with plain values: {printable(error)}") from None


def _check_events(text, loader, where):
    """Refuse anchors, aliases and too deeply nested values before anything is built from them."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.YAMLError(f"anchors and aliases are not read, and line {event.start_mark.line + 1} has {event.anchor!r}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            check_limit("yaml_depth", depth, f"{printable(where)}, from the outermost value to the innermost,")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _starts(file):
    """The records of earlier starts of the run."""
    known = read_yaml(file).get("starts", []) if file.exists() else []
    if not isinstance(known, list):
        raise ValueError(f"{printable(file)} must hold a list of starts; got {type(known).__name__}.")
    return known


def _check_same(before, now, path):
    # An earlier version recorded less about the corpus; only what it recorded is compared.
    known, corpus = (values["corpus"] if isinstance(values.get("corpus"), dict) else {} for values in (before, now))
    refuse_other(path, "a run on another corpus", "corpus", [(name, value, corpus.get(name)) for name, value in known.items()])
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
