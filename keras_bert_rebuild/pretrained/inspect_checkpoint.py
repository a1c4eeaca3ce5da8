"""The contents of a checkpoint, name by name, without loading it."""

import math
import os
from collections import namedtuple
from typing import Any

import numpy as np

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint

# A name of the file, its shape, dtype and number of values, and our variable for it: several, with commas, if they are concatenated
# in it, "-" if it holds no weights, and "?" if it is unknown.
NameRow = namedtuple("NameRow", ["name", "shape", "dtype", "parameters", "path"])


def inspect_checkpoint(path: str | os.PathLike[str], config: BertConfig | str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Find out what `from_pretrained` would load.

    Args:
        path: a folder or file, as for `from_pretrained`.
        config: as for `from_pretrained`.

    Returns:
        A dictionary: `file`, `format`, `family`, `config` (the fields of a `BertConfig`), `heads`, `names`, a list of `NameRow`.
        A Keras file of this library is loaded, since only Keras knows its names.

    Raises:
        ValueError: the path does not exist or cannot be read.
    """
    checkpoint = find_checkpoint(path, config)
    if checkpoint.source is None:
        return _inspect_keras(path, config)
    table, source = checkpoint.table, checkpoint.source
    rows = table.rows(checkpoint.config.num_distinct_blocks)
    path_of: dict[str, str] = {}
    for row in rows:  # if heads share a name, the next loop chooses the one in the file
        path_of.setdefault(row.name, ", ".join(row.paths) or row.path)
    for row in table.rows(checkpoint.config.num_distinct_blocks, checkpoint.heads):
        path_of[row.name] = ", ".join(row.paths) or row.path
    names = []
    for name in source.names:
        canonical = table.canonical(name, path_of)
        path = "-" if table.is_ignored(canonical) else path_of.get(canonical, "?")
        names.append(NameRow(name, source.shape(name), source.dtype(name), math.prod(source.shape(name)), path))
    return _described(checkpoint, checkpoint.config, checkpoint.heads, names)


def _inspect_keras(path, config):
    from keras_bert_rebuild.models.heads import heads_of
    from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained

    checkpoint, model = find_checkpoint(path, config), from_pretrained(path, config=config)
    names = [NameRow(v.path, tuple(v.shape), v.dtype, int(np.prod(v.shape)), v.path) for v in model.weights]
    return _described(checkpoint, getattr(model, "config", None), heads_of(model), names)


def _described(checkpoint, config, heads, names):
    return {
        "file": str(checkpoint.file),
        "format": checkpoint.format,
        "family": None if config is None else config.family,
        "config": {} if config is None else config.to_dict(),
        "heads": list(heads),
        "names": names,
    }
