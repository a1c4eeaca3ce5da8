"""The kind of an output, recognised by names and first bytes: a writer only replaces files of its own kind."""

import fnmatch
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileKind:
    """A kind of file."""

    what: str
    """A description, such as "a page of attention"."""

    suffixes: tuple[str, ...]
    """The allowed suffixes, in lower case; the suffix decides the format."""

    is_one: Callable[[Path], bool]
    """Whether an existing file is of this kind."""


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder."""

    what: str
    """A description, such as "a model"."""

    marks: tuple[str, ...]
    """Patterns of names; a folder with any match is of this kind."""

    names: tuple[str, ...]
    """Patterns of the names that its writers write; matches in a replaced folder are removed."""


def _starts(*magic):
    return lambda path: path.stat().st_size == 0 or _head(path).lstrip().lower().startswith(magic)


def _head(path, size=4096):
    with open(path, "rb") as file:
        return file.read(size)


def _is_vectors(path):
    return path.stat().st_size == 0 or _head(path).startswith(b"PAR1" if path.suffix.lower() == ".parquet" else b"\x93NUMPY")


def _is_picture(path):
    head = _head(path)
    magic = {".svg": b"<svg" in head, ".png": head.startswith(b"\x89PNG"), ".pdf": head.startswith(b"%PDF")}
    return not head or magic.get(path.suffix.lower(), True)


def _is_vocabulary(path):
    # One token per line, without white space.
    return all(len(line.split()) <= 1 and b"\0" not in line for line in _head(path, 1 << 20).split(b"\n"))


def _is_adapters(path):
    return path.stat().st_size == 0 or b"keras_bert_rebuild.lora" in _head(path, 1 << 20)


# Columns of answers that training examples do not have, except for scores.
_OF_ANSWERS = {"probability", "probabilities", "score", "entities", "choice", "texts", "masks"}


# What a Parquet file of answers has in its metadata, which are at its end.
ANSWERS_MARK = "keras_bert_rebuild.answers"


def _is_answers(path):
    if path.suffix.lower() == ".parquet":
        return path.stat().st_size == 0 or ANSWERS_MARK.encode() in path.read_bytes()[-1 << 16 :]
    head = _head(path, 1 << 16)
    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    if not head:
        return True
    if path.suffix.lower() in (".tsv", ".csv"):
        names = line.split("\t" if path.suffix.lower() == ".tsv" else ",")
        return "labels:json" in names or not _OF_ANSWERS.isdisjoint(name.removesuffix(":json") for name in names)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # answers by id are one long line, of which only the start was read
        return path.suffix.lower() == ".json" and line.startswith('{"') and not line.startswith('{"data"') and len(head) == 1 << 16
    if path.suffix.lower() == ".json":
        return isinstance(value, dict) and all(isinstance(answer, str) for answer in value.values())
    return isinstance(value, dict) and not _OF_ANSWERS.isdisjoint(value)


def _is_ranking(path):
    columns = _head(path).partition(b"\n")[0].split()
    return path.stat().st_size == 0 or (len(columns) == 6 and columns[1] == b"Q0")


def _is_groups(path):
    return path.stat().st_size == 0 or _head(path).startswith(b'{"query": "')


def _is_attribution(path):
    head = _head(path)
    return not head or head.lstrip().lower().startswith(
        (b"<!doctype html", b"<html") if path.suffix.lower() != ".json" else b'[{"texts":'
    )


PAGE = FileKind("a page", (".html", ".htm"), _starts(b"<!doctype html", b"<html"))
CURVES = FileKind("a picture of curves", (".svg",), _is_picture)
DRAWING = FileKind("a drawing", (".svg",), _is_picture)
PICTURE = FileKind("a picture", (".svg", ".png", ".pdf", ".eps", ".ps", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"), _is_picture)
ATTRIBUTIONS = FileKind("attributions", (".html", ".htm", ".json"), _is_attribution)
VECTORS = FileKind("vectors", (".npy", ".parquet"), _is_vectors)
ANSWERS = FileKind("answers", (".jsonl", ".tsv", ".csv", ".parquet", ".json"), _is_answers)
FILLED = FileKind("filled masks", (".jsonl",), _is_answers)
RANKING = FileKind("a TREC run", (".tsv", ".txt", ".run", ".trec"), _is_ranking)
GROUPS = FileKind("queries with negatives", (".jsonl",), _is_groups)
VOCABULARY = FileKind("a vocabulary", (".txt", ".vocab", ""), _is_vocabulary)
ADAPTERS = FileKind("low-rank matrices", (".safetensors",), _is_adapters)

TOKENIZER_NAMES = (
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
)

STORE = FolderKind(
    "a token store", ("index.json", "progress.json", "index-*-of-*.json", "progress-*-of-*.json", "shard-*.npy"), ("vocab.txt",)
)
INDEX = FolderKind("a search index", ("documents.lance", "unfinished.lance"), ("documents.lance", "unfinished.lance"))
RUN = FolderKind("a training run", ("settings.yaml",), ())
RECIPE = FolderKind("a training by a recipe", ("recipe.yaml",), ())
CHECKPOINTS = FolderKind("checkpoints of a training", ("step-*",), ())
EXPORT = FolderKind(
    "an exported model",
    ("export.json", "saved_model.pb", "model.onnx", "model.xml"),
    (
        *("export.json", "saved_model.pb", "fingerprint.pb", "variables", "assets", "model.onnx", "model.onnx.data"),
        *("model.xml", "model.bin", "model_int8.xml", "model_int8.bin", *TOKENIZER_NAMES),
    ),
)
# The picture is written first; a bert.keras alone may be anyone's.
DEMO = FolderKind("a demo", ("bert-base.svg",), ("bert.keras", "bert-base.svg", "bert-base.txt", "vocab.txt", "small-world"))
MODEL = FolderKind(
    "a model",
    (
        "config.json",
        "bert_config.json",
        "*.keras",
        "*.h5",
        "*.safetensors",
        "*.ckpt.index",
        "*.bin",
        "model.safetensors.index.json",
        *TOKENIZER_NAMES,
    ),
    (
        *("config.json", "model.safetensors", "model-?????-of-?????.safetensors", "model.safetensors.index.json", "task.json"),
        *("bert_config.json", "bert_model.ckpt.*", "checkpoint", "model.keras", *TOKENIZER_NAMES),
    ),
)

# Kinds with more specific marks first: a run contains a model, an export sometimes a config.
FOLDERS = (RUN, RECIPE, INDEX, STORE, EXPORT, DEMO, MODEL, CHECKPOINTS)


def folder_kind(path):
    """The `FolderKind` of a folder, or None for any other folder."""
    names = visible_names(path)
    return next((kind for kind in FOLDERS if any(_fits(name, kind.marks) for name in names)), None)


def visible_names(path):
    """The names in a folder, without hidden files such as locks."""
    return sorted(name for name in os.listdir(path) if not name.startswith("."))


def names_in_the_way(path, kind):
    """Existing names in a folder that a writer of a kind would overwrite."""
    return [name for name in visible_names(path) if _fits(name, kind.names)]


def declared_names(names, kind):
    """Those of the names in a manifest that are names of what the writers of a kind write: no paths and no patterns."""
    return {name for name in names if isinstance(name, str) and not set("*?[/\\") & set(name) and _fits(name, kind.names)}


def _fits(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
