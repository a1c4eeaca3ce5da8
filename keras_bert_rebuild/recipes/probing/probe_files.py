"""The labelled files of a probe: how they are named, read and checked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.corpora.store_files import sha256_of
from keras_bert_rebuild.data.labelled.read_labelled import read_examples

KINDS = ("classification", "similarity")
_NAMED = re.compile(r"(?:(?P<kind>[a-z]+):)?(?P<name>[A-Za-z0-9][A-Za-z0-9_-]*)=(?P<train>[^,]+),(?P<dev>[^,]+)")

# With fewer training examples, none are left to choose the penalty on.
LEAST = 10


@dataclass(frozen=True)
class ProbeFiles:
    """A probe as given in the settings."""

    name: str
    """The name in columns and charts."""

    kind: str
    """"classification" of texts or pairs of texts, or "similarity", a number for each pair."""

    train: Path
    """The file with the training examples."""

    dev: Path
    """The file with the examples to score on."""


def probe_files(texts: Sequence[str]) -> list[ProbeFiles]:
    """Parse probes of the form `NAME=TRAIN,DEV` or `KIND:NAME=TRAIN,DEV`.

    Raises:
        ValueError: a text has another form, the kind is unknown, or two probes have the same name.
    """
    probes: list[ProbeFiles] = []
    for text in texts:
        match = _NAMED.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            expected = "NAME=TRAIN,DEV or KIND:NAME=TRAIN,DEV, the name of letters, digits, _ and -"
            raise ValueError(f"probes must be of the form {expected}; got {text!r}.")
        kind = match["kind"] or KINDS[0]
        if kind not in KINDS:
            raise ValueError(f"the kind of a probe must be one of {', '.join(KINDS)}; got {kind!r} in {text!r}.")
        if match["name"] in (other.name for other in probes):
            raise ValueError(f"probes must have different names; got {match['name']!r} twice.")
        probes.append(ProbeFiles(match["name"], kind, Path(match["train"]), Path(match["dev"])))
    return probes


@dataclass(frozen=True)
class ProbeExamples:
    """The examples of a probe: unique texts, and for each example the indices of its text or texts."""

    files: ProbeFiles
    """The files of the examples."""

    texts: list[str]
    """All unique texts."""

    train: npt.NDArray
    """Indices of the texts of the training examples, `(examples, 1)` or, for pairs, `(examples, 2)`."""

    dev: npt.NDArray
    """The same of the examples to be scored on."""

    train_targets: npt.NDArray
    """Labels as whole numbers from 0, or scores, `(examples,)`."""

    dev_targets: npt.NDArray
    """The same of the examples to be scored on."""

    labels: tuple[str, ...]
    """The labels in the order of their numbers; none for scores."""

    sha256: dict[str, str]
    """The SHA-256 of both files."""


def read_probe(files: ProbeFiles, limit: int, seed: int = 0) -> ProbeExamples:
    """Read and check the files of a probe.

    Args:
        files: the probe and its files.
        limit: maximum number of examples per file; from larger files, this many are sampled.
        seed: the seed of the sample and of the order of the training examples.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not of this kind, has too few examples or only one label or score, pairs and single texts are mixed,
            or the second file has a label that is missing from the first.
    """
    parts = {name: read_examples(getattr(files, name), files.kind) for name in ("train", "dev")}
    labels = _labels(files, parts) if files.kind == "classification" else ()
    if not labels:
        for name, examples in parts.items():
            if len({example.score for example in examples}) < 2:
                raise ValueError(f"a similarity probe must have pairs with different scores; {getattr(files, name)} has none.")
    if len(parts["train"]) < LEAST:
        raise ValueError(f"a probe must have at least {LEAST} training examples; {files.train} has {len(parts['train'])}.")
    index_of: dict[str, int] = {}
    rows = {name: _drawn(examples, limit, seed) for name, examples in parts.items()}
    widths = {len(_texts_of(example)) for examples in rows.values() for example in examples}
    if len(widths) > 1:
        raise ValueError(f"the examples of a probe must all be texts or all be pairs; {files.train} and {files.dev} have both.")
    indices = {
        name: np.array([[index_of.setdefault(text, len(index_of)) for text in _texts_of(example)] for example in examples])
        for name, examples in rows.items()
    }
    numbers = {label: number for number, label in enumerate(labels)}
    targets = {
        name: np.array([numbers[example.label] if labels else example.score for example in examples])
        for name, examples in rows.items()
    }
    sha256 = {name: sha256_of(getattr(files, name)) for name in parts}
    return ProbeExamples(files, list(index_of), indices["train"], indices["dev"], targets["train"], targets["dev"], labels, sha256)


def described_probes(probes: Sequence[ProbeExamples]) -> dict[str, Any]:
    """The entries that identify the files of probes in the settings of a run; empty without probes."""
    return {"probed": {probe.files.name: {"kind": probe.files.kind, **probe.sha256} for probe in probes}} if probes else {}


def _labels(files: ProbeFiles, parts: dict[str, list[Any]]) -> tuple[str, ...]:
    labels = tuple(sorted({example.label for example in parts["train"]}))
    if len(labels) < 2:
        problem = f"all examples of {files.train} are {labels[0]!r}" if labels else f"{files.train} has no example"
        raise ValueError(f"a probe must have at least two labels; {problem}.")
    if not parts["dev"]:
        raise ValueError(f"a probe must have examples to score on; {files.dev} has none.")
    unknown = next((example for example in parts["dev"] if example.label not in labels), None)
    if unknown is not None:
        raise ValueError(f"every label of a probe must occur in {files.train}; {unknown.where} has {unknown.label!r}.")
    return labels


def _drawn(examples, limit, seed):
    """The examples in random order, at most as many as the limit."""
    order = np.random.default_rng(seed).permutation(len(examples))[:limit]
    return [examples[i] for i in order]


def _texts_of(example):
    if hasattr(example, "first"):
        return (example.first, example.second)
    return (example.text,) if example.pair is None else (example.text, example.pair)
