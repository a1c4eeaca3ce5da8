"""One checkpoint: its arrays, which are written one at a time, its facts, and the check that it is intact."""

import hashlib
import json
import math
import re
import sys
from functools import cached_property
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.safetensors_files import DTYPES, SafetensorsFiles
from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular, parse_json, read_text
from keras_bert_rebuild.version import __version__

ARRAYS, FACTS = "state.safetensors", "facts.json"

# The keys of `facts.json`, besides the sha256 of their values.
_KEYS = ("step", "score", "sha256", "facts", "versions")

# The names of folders contain their step, unless they were renamed.
_STEP = re.compile(r"\.?step-(\d+)\b")


class Checkpoint:
    """A checkpoint on disk.

    Args:
        path: the folder of the checkpoint.
    """

    def __init__(self, path):
        self.path = Path(path)

    @property
    def step(self):
        """Number of trained batches when it was written."""
        return self._facts["step"]

    @property
    def score(self):
        """The score of its weights, lower is better; None if it is unknown."""
        return self._facts["score"]

    @property
    def facts(self):
        """The values saved besides the arrays, such as the position in the data."""
        return self._facts["facts"]

    @property
    def versions(self):
        """The backend and package versions that wrote it."""
        return self._facts["versions"]

    @property
    def sha256(self):
        """The sha256 of the file of its arrays."""
        return self._facts["sha256"]

    def arrays(self):
        """Its arrays by name, read from disk one at a time: a source for `write_state`."""
        return SafetensorsFiles(self.path / ARRAYS)

    @cached_property
    def _facts(self):
        path = self.path / FACTS
        try:
            facts = parse_json(read_text(path, "json_bytes", "JSON"), path)
            written = facts.pop("sha256_of_facts")
            named = _STEP.match(self.path.name)
            complete = facts.keys() == set(_KEYS) and (named is None or facts["step"] == int(named[1]))
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is missing or damaged: {type(error).__name__}: {printable(error)}.") from None
        if not complete or _digest(facts) != written:
            raise ValueError(f"{path} is damaged: its content has changed.")
        return facts


def read_checkpoint(path):
    """Read and verify the checkpoint in a folder.

    Raises:
        ValueError: a file is missing or its checksum differs.
    """
    checkpoint = Checkpoint(path)
    expected, arrays = checkpoint.sha256, checkpoint.path / ARRAYS
    check_regular(arrays)
    try:
        with arrays.open("rb") as file:
            got = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{arrays} cannot be read: {error.strerror}.") from None
    if got != expected:
        raise ValueError(f"{arrays} is damaged: expected the sha256 {expected[:16]}…, got {got[:16]}….")
    return checkpoint


def write_facts(folder, step, sha256, facts, score):
    """Write the facts of a checkpoint, or overwrite them.

    Args:
        folder: the folder of the checkpoint.
        step: number of trained batches.
        sha256: the sha256 of the file of its arrays.
        facts: a dictionary that JSON can encode.
        score: a number or None.
    """
    score = None if score is None or not math.isfinite(score) else float(score)
    content = dict(zip(_KEYS, (step, score, sha256, facts, _versions()), strict=True))
    try:
        content = json.loads(json.dumps(content, allow_nan=False))  # JSON converts keys that are numbers to strings
        text = json.dumps(content | {"sha256_of_facts": _digest(content)}, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected facts that JSON can encode; got {facts!r}: {error}.") from None
    write_file(Path(folder) / FACTS, lambda file: file.write(text.encode() + b"\n"), claimed=True)


def _digest(facts):
    return hashlib.sha256(json.dumps(facts, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _versions():
    backend = keras.config.backend()
    names = ("keras", "numpy", backend)  # all of them have been imported by Keras
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {"backend": backend, "keras_bert_rebuild": __version__} | versions


_WORDS = {name: word for word, name in DTYPES.items()}


def write_arrays(file, source):
    """Write all arrays of a source as safetensors, with one array in memory at a time.

    The safetensors library would need all of them at once.

    Args:
        file: a binary file that is open for writing.
        source: an object with `names`, `shape(name)`, `dtype(name)` and `read(name)`.

    Returns:
        The sha256 of the file.

    Raises:
        ValueError: an array has an unsupported type.
        OSError: the file cannot be written.

    Reference: the format as https://github.com/huggingface/safetensors describes it.
    """
    header, offset = {}, 0
    for name in source.names:
        dtype, shape = source.dtype(name), tuple(source.shape(name))
        if dtype not in _WORDS:
            raise ValueError(f"expected an array of {', '.join(_WORDS)} to write; {name} has {dtype}.")
        size = int(np.prod(shape, dtype="int64")) * np.dtype(dtype).itemsize
        header[name] = {"dtype": _WORDS[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    digest = hashlib.sha256()

    def write(content):
        file.write(content)
        digest.update(content)

    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write(len(text).to_bytes(8, "little") + text)
    for name in source.names:
        write(np.ascontiguousarray(source.read(name)).reshape(-1).view("uint8").data)
    return digest.hexdigest()
