"""The files of a folder of tokens: their names, and how they are written and checked.

    vocab.txt                   the vocabulary, byte for byte
    shard-000000.ids.npy        token ids of a block of the corpus, `(tokens,)`
    shard-000000.passages.npy   where its passages start and, last, the number of its tokens, int64
    shard-000000.documents.npy  the same for its documents; tokens before the first start continue the last document of the
                                previous shard
    index.json                  settings, counts, size and SHA-256 of every file; of a corpus made in parts every part has its own,
                                index-00002-of-00008.json

While the folder is being written there are also `progress.json`, with the settings, and `shard-000000.json`, the record of a shard
that goes into the index: it is written as soon as the shard is complete.
"""

import hashlib
import json

import numpy as np

from keras_bert_rebuild.files.durable import write_file, written_file

FORMAT = "keras_bert_rebuild tokens"
# Version 1 is read too: in it every shard starts a document, even if it continues one of the previous shard.
VERSION = 2
KINDS = ("ids", "passages", "documents")
COUNTS = ("tokens", "passages", "documents", "unknown")


def shard_file(number, kind):
    """Name of a file of a shard."""
    return f"shard-{number:06d}.{kind}.npy"


def record_file(number):
    """Name of the file that marks a shard as done."""
    return f"shard-{number:06d}.json"


def part_file(stem, part):
    """Name of the index or progress file of a part, `(number, parts)`."""
    return f"{stem}.json" if part[1] == 1 else f"{stem}-{part[0]:05d}-of-{part[1]:05d}.json"


def write_json(path, value):
    """Write JSON, the same bytes for the same value."""
    content = (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
    write_file(path, lambda file: file.write(content), claimed=True)


def write_shard(folder, number, arrays):
    """Write the arrays of a shard, by kind, and return the record of their files for the index."""
    files = {}
    for kind in KINDS:
        path = folder / shard_file(number, kind)
        with written_file(path, claimed=True) as file:
            np.save(file, arrays[kind], allow_pickle=False)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    return files


def is_intact(folder, record):
    """Whether all files of a shard are unchanged since they were written."""
    paths = {folder / name: file for name, file in record["files"].items()}
    return all(path.is_file() and path.stat().st_size == file["bytes"] for path, file in paths.items()) and all(
        sha256_of(path) == file["sha256"] for path, file in paths.items()
    )


def sha256_of(path):
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
