"""The files of a folder of tokens: their names, and how they are written, read and checked.

    vocab.txt                   the vocabulary, byte for byte
    shard-000000.ids.npy        token ids of a block of the corpus, `(tokens,)`
    shard-000000.passages.npy   offset of every passage, and last the number of tokens, int64
    shard-000000.documents.npy  the same for documents; tokens before the first offset continue the last document of the previous
                                shard
    index.json                  settings, counts, size and SHA-256 of every file; a corpus prepared in parts has one per part, such
                                as index-00002-of-00008.json

While the folder is being written, it also has `progress.json`, the settings, and `shard-000000.json`, the record of a shard for the
index, written when the shard is complete.
"""

import hashlib
import json
import re

import numpy as np

from keras_bert_rebuild.files.durable import write_file, written_file
from keras_bert_rebuild.files.reading import parse_json, read_text

FORMAT = "keras_bert_rebuild tokens"
# Version 1 is also read: in it every shard starts a document, even where it continues one of the previous shard.
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


def write_shard(folder, number, arrays, unknown):
    """Write the files of a shard.

    Args:
        folder: the folder of the store.
        number: the number of the shard.
        arrays: a dictionary by kind.
        unknown: the id of `[UNK]`.

    Returns:
        The record of the shard for the index, which is also written, as the last file.
    """
    files = {}
    for kind in KINDS:
        path = folder / shard_file(number, kind)
        with written_file(path, claimed=True) as file:
            np.save(file, arrays[kind], allow_pickle=False)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    record = {
        "number": number,
        "tokens": len(arrays["ids"]),
        "passages": len(arrays["passages"]) - 1,
        "documents": len(arrays["documents"]) - 1,
        "unknown": int((arrays["ids"] == unknown).sum()),
        "files": files,
    }
    write_json(folder / record_file(number), record)
    return record


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


def part_files(folder, stem):
    """The index or progress files of all parts, sorted by name."""
    return sorted(path for path in folder.iterdir() if re.fullmatch(stem + r"(-\d{5}-of-\d{5})?\.json", path.name))


def read_description(path):
    """Read an index or a progress file.

    Raises:
        ValueError: it is damaged, of another format or of an unknown version.
    """
    try:
        value = parse_json(read_text(path, "store_index_bytes", "JSON"), path, "labelled_json_values")
        is_valid = value["format"] == FORMAT and isinstance(value["settings"], dict)
        number, parts = value["part"]
        is_valid = is_valid and type(number) is int and type(parts) is int and 0 <= number < parts <= 99_999
        is_valid = is_valid and part_file(path.name.split("-")[0].removesuffix(".json"), (number, parts)) == path.name
        version = value["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"expected a file that `keras-bert prepare` wrote; {path} is damaged or something else.")
    if version != VERSION:
        raise ValueError(
            f"expected version {VERSION} of the format; {path} has version {version!r}: prepare the corpus into another folder."
        )
    return value


def checked_record(record, path):
    """The record of a shard from an index, if it is valid.

    Raises:
        ValueError: it is damaged, or lists files that are not those of the shard.
    """
    try:
        number, files = record["number"], record["files"]
        numbers = [number, *(record[name] for name in COUNTS), *(file["bytes"] for file in files.values())]
        texts = [file["sha256"] for file in files.values()]
        valid = all(type(n) is int and 0 <= n < 1 << 62 for n in numbers) and all(isinstance(text, str) for text in texts)
        valid = valid and set(files) == {shard_file(number, kind) for kind in KINDS}
    except (KeyError, TypeError, AttributeError):
        valid = False
    if not valid:
        raise ValueError(f"expected the counts and files of a shard; {path} has something else.")
    return record


def read_indexes(folder):
    """The settings of a finished folder, and the records of all shards in order.

    Raises:
        ValueError: a part or a shard is missing, an index is damaged, or the parts are from different runs.
    """
    if not folder.is_dir():
        raise ValueError(
            f"expected a folder that `keras-bert prepare` wrote; {folder} {'is a file' if folder.exists() else 'does not exist'}."
        )
    paths = part_files(folder, "index")
    if not paths:
        started = part_files(folder, "progress")
        problem = "is not finished: run the same command again" if started else "has no index.json"
        raise ValueError(f"expected a folder that `keras-bert prepare` wrote; {folder} {problem}.")
    indexes = [read_description(path) for path in paths]
    parts = indexes[0]["part"][1]
    for number in range(parts):
        if folder / part_file("index", (number, parts)) not in paths:
            raise ValueError(f"expected all {parts} parts of the tokens; {folder} has no {part_file('index', (number, parts))}.")
    records = []
    for path, index in zip(paths, indexes, strict=True):
        if len(paths) != parts or any(index.get(name) != indexes[0].get(name) for name in ("settings", "blocks")):
            raise ValueError(f"expected the parts of one run; {path} is from a different run than {paths[0].name}.")
        if not isinstance(index.get("shards"), list):
            raise ValueError(f"expected a list of shards; {path} has none.")
        records += [checked_record(record, path) for record in index["shards"]]
    records.sort(key=lambda record: record["number"])
    blocks, numbers = indexes[0].get("blocks"), [record["number"] for record in records]
    if len(numbers) != blocks or numbers != list(range(len(numbers))):
        raise ValueError(f"expected every shard once; the index of {folder} has {len(numbers)} of {blocks}.")
    return _checked_settings(indexes[0]["settings"], paths[0]), records


def _checked_settings(settings, path):
    try:
        valid = isinstance(settings["cased"], bool) and settings["dtype"] in ("uint16", "int32")
        valid = valid and isinstance(settings["vocabulary"]["sha256"], str)
    except (KeyError, TypeError):
        valid = False
    if not valid:
        raise ValueError(f"expected the settings of `keras-bert prepare`; {path} has others.")
    return settings
