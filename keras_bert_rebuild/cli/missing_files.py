"""Files that a command line names and that are not there, found with the standard library alone."""

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

READ = ("existing", "checkpoint", "size_or_path")


def missing_file(options: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> str | None:
    """A sentence about the first file that is not there, or None.

    Args:
        options: those of a verb as plain data, as in `parser.json`: "type" is "existing" for a path, "checkpoint" for one that may
            also be the prefix of a TensorFlow checkpoint, "size_or_path" for one that may also be a name in "known".
        given: their values.
    """
    for option in options:
        if option.get("type") not in READ:
            continue
        name = option["names"][0]
        values = given.get(option.get("dest", name.lstrip("-").replace("-", "_")))
        for value in values if isinstance(values, list | tuple) else [values]:
            if value is None or os.path.lexists(value) or str(value) in option.get("known", ()):
                continue
            if option["type"] == "checkpoint" and _is_prefix(value):
                continue
            what = "a file, a folder or a known name" if "known" in option else "a file or folder"
            shown = name if name.startswith("-") else option.get("metavar", name)
            return f"{shown} must be {what} that exists; got {str(value)!a}{_hint(value, option.get('known', ()))}."
    return None


def _is_prefix(value):
    path = Path(value)
    return path.parent.is_dir() and any(path.parent.glob(f"{_escaped(path.name)}.*"))


def _escaped(name):
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _hint(value, known):
    """The nearest name: of a known one, or of a file next to the one that is missing."""
    path = Path(value)
    try:
        beside = os.listdir(path.parent)
    except OSError:
        beside = []
    near = difflib.get_close_matches(path.name, [*known, *beside], n=1, cutoff=0.75)
    if not near:
        return ""
    meant = near[0] if near[0] in known else str(path.parent / near[0])
    return f"; did you mean {meant!a}"
