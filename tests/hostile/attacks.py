"""Hostile files by number: the same number and seed make the same files."""

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import yaml
from helpers.hostile_inputs import ABSURD, fuzzed_config
from hostile.bombs import BOMBS
from hostile.folder_bombs import FOLDER_BOMBS
from hostile.folders import FOLDERS
from hostile.samples import SAMPLES, files_of

# Inputs of every sample, in addition to the bombs.
COUNTS = {
    "safetensors": 250,
    "shards": 120,
    "torch": 200,
    "torch_old": 150,
    "tensorflow": 250,
    "tf_model": 120,
    "keras_bert": 150,
    "whole": 150,
    "whole_h5": 120,
    "weights": 120,
    "config": 350,
    "google_config": 100,
    "task": 250,
    "wordpiece": 250,
    "bpe": 150,
    "byte_pairs": 60,
    "sentencepiece": 150,
    "store": 200,
    "labelled": 200,
    "corpus": 40,
    "settings": 80,
    "lora": 80,
    "checkpoint": 60,
    **dict.fromkeys(FOLDERS, 40),
    **{name: 70 for name in FOLDERS if name.startswith("pipeline_")},
    "retrieval": 700,
    "recipe": 80,
    "run": 80,
    "attribution": 80,
    "keras_2": 80,
}
BOMBS = BOMBS | FOLDER_BOMBS
JSON = (".json", ".jsonl", ".metadata")
TABLES = (".csv", ".tsv", ".qrels", ".run")
SCRIPT = "<script>alert(1)</script>"
CELLS = (
    SCRIPT,
    f"probe_x{SCRIPT}_y",
    "probe_\"/><image href='x' onerror='alert(1)'/>_accuracy",
    "probe_a\x1b[2J_b",
    "step",
    "1e999",
    "-1e308",
    "nan",
    "inf",
    "9" * 30,
    "9" * 5000,
    str(2**63),
    str(-(2**70)),
    "",
    '"',
    "\x00",
    "\ud800",
    "a\rb",
    "\u2028",
    "\u202e",
    "'=1+1",
    "x" * 200_000,
    "1_0",
    "\u0663",
)
# Bombs that are quick to make, one of each kind.
ALWAYS = (
    "pipe-safetensors",
    "pipe-checkpoint",
    "device-config",
    "repository-settings",
    "torch-pickle",
    "torch-sparse",
    "torch-meta",
    "torch-expanded",
    "torch-filled",
    "torch-old-filled",
    "torch-old-many",
    "hdf5-external_pipe-tf_model",
    "hdf5-declared-weights",
    "hdf5-every_array-keras_bert",
    "keras-unpacks",
    "keras-program",
    "keras-foreign_class",
    "index-same_block",
    "index-shared_names",
    "index-lying_shapes",
    "header-names",
    "index-other",
    "yaml-aliases",
    "lora-pattern",
    "far-passages",
    "module-path-number",
    "charsmap-random-0",
    "id-300000000-pipeline_rules",
    "grade-2^63",
    "recipe-0",
    "metrics-script",
    "attribution-2",
    "keras_2-units",
)


class Input(NamedTuple):
    """A folder with something hostile in it, and the action on it."""

    name: str
    action: str
    folder: Path
    file: str


def numbers(part=1):
    """The names of all inputs, the unchanged samples first; or every `part`-th of a sample and a few bombs."""
    good = [f"{sample}-{file}-good" for sample, (_, files) in SAMPLES.items() for file in (files if part == 1 else files[:1])]
    changed = [f"{sample}-{i}" for sample, count in COUNTS.items() for i in range(0, count, part)]
    return [*good, *changed, *(f"bomb-{name}" for name in (ALWAYS if part > 1 else BOMBS))]


def make(name, samples, folder, mark, seed=22):
    """Write an input.

    Args:
        name: one of `numbers`.
        samples: the folder of `samples.write_samples`.
        folder: where to write; what is there is removed.
        mark: the file that attacks write if their code is run.
        seed: of all.
    """
    shutil.rmtree(folder, ignore_errors=True)
    kind, _, number = name.partition("-")
    if kind == "bomb":
        sample, file, bomb = BOMBS[number]
        action = SAMPLES[sample][0]
        shutil.copytree(samples / sample, folder)
        file = files_of(folder, file)[0]
        bomb(folder, file, mark)
        return Input(name, action, folder, file)
    action, patterns = SAMPLES[kind]
    shutil.copytree(samples / kind, folder)
    files = files_of(folder, *patterns)
    if number.endswith("-good"):
        return Input(name, action, folder, files_of(folder, number.removesuffix("-good"))[0])
    rng = np.random.default_rng([seed, *kind.encode(), int(number)])
    file = files[int(number) % len(files)]
    path = folder / file
    content = path.read_bytes()
    if kind == "keras_2" and rng.integers(4):
        change_attribute(path, rng)
        return Input(name, action, folder, file)
    if path.name.endswith(JSON) and rng.integers(4):
        changed = changed_json(content, rng, path.suffix == ".jsonl")
    elif kind in FOLDERS and path.name.endswith(".yaml") and rng.integers(4):
        changed = json.dumps(_with_absurd(yaml.safe_load(content), rng)).encode("utf-8", "surrogatepass")
    elif kind in FOLDERS and path.name.endswith(TABLES) and rng.integers(4):
        changed = changed_table(content, rng)
    elif path.name.endswith(("config.json",)):
        changed = fuzzed_config(rng, json.loads(content)).encode("utf-8", "surrogatepass")
    else:
        changed = damaged(content, rng)
    path.write_bytes(changed)
    return Input(name, action, folder, file)


def change_attribute(path, rng):
    """An absurd value in the architecture that an .h5 file of Keras 2 has as JSON."""
    with h5py.File(path, "a") as file:
        config = json.loads(file.attrs["model_config"])
        layers = config["config"]["layers"]
        if rng.integers(3):  # deep inside, where the values of a layer are
            i = int(rng.integers(len(layers)))
            layers[i] = _with_absurd(layers[i], rng)
        else:
            config = _with_absurd(config, rng)
        file.attrs["model_config"] = json.dumps(config).encode("utf-8", "replace")


def changed_table(content, rng):
    """A table in which one cell, of the header or of a row, is hostile."""
    lines = content.decode().split("\n")
    separator = next(each for each in "\t, " if each in lines[0])
    row = int(rng.integers(len(lines) - 1)) if rng.integers(3) else 0
    cells = lines[row].split(separator)
    cells[int(rng.integers(len(cells)))] = CELLS[int(rng.integers(len(CELLS)))]
    return "\n".join([*lines[:row], separator.join(cells), *lines[row + 1 :]]).encode("utf-8", "surrogatepass")


def damaged(content, rng):
    """Bytes cut, flipped, exchanged, repeated, inserted, or a changed header where there is one."""
    content = bytearray(content)
    kind, size = int(rng.integers(8)), max(len(content), 1)
    at, length = int(rng.integers(size)), int(rng.integers(1, 40))
    if kind == 0:
        return bytes(content[:at])
    if kind == 1:
        for place in rng.integers(0, size, int(rng.integers(1, 9))):
            content[place : place + 1] = bytes([int(rng.integers(256))])
    elif kind == 2:  # a bit, where the structure is
        place = int(rng.integers(min(size, 4096)))
        content[place : place + 1] = bytes([content[place] ^ 1 << int(rng.integers(8))]) if content else b"x"
    elif kind == 3:
        content[at : at + length] = content[int(rng.integers(size)) :][:length]
    elif kind == 4:
        content[at:at] = content[at : at + length]
    elif kind == 5:
        content[at : at + length] = bytes(rng.integers(0, 256, length, "uint8"))
    elif kind == 6:  # a wrong number
        content[at : at + 8] = int(rng.choice([2**31 - 1, 2**32 - 1, 2**62, 2**63 - 1])).to_bytes(8, "little")
    else:
        marked = b"\xef\xbb\xbf" + content
        return [b"", bytes(100), bytes(content).decode("latin-1").encode("utf-16"), marked][int(rng.integers(4))]
    return bytes(content)


def changed_json(content, rng, lines=False):
    """JSON with an absurd value, deep nesting, or another encoding."""
    kind = int(rng.integers(10))
    if kind == 0:
        return b"[" * 100_000
    if kind == 1:
        return b'{"a":' * 100 + b"1" + b"}" * 100
    if kind == 2:
        return content.decode().encode("utf-16")
    if kind == 3:
        return content.replace(b":", b":" + b"9" * 5000 + b",", 1)
    if lines:
        rows = [json.loads(line) for line in content.splitlines()]
        rows[int(rng.integers(len(rows)))] = _absurd(rng)
        return "\n".join(json.dumps(row) for row in rows).encode("utf-8", "surrogatepass")
    value = json.loads(content)
    for _ in range(int(rng.integers(1, 3))):
        value = _with_absurd(value, rng)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _with_absurd(value, rng):
    """A value with one absurd value in it, at any depth."""
    if isinstance(value, dict) and value and rng.integers(6):
        key = list(value)[int(rng.integers(min(len(value), 12)))]
        return {**value, key: _with_absurd(value[key], rng)}
    if isinstance(value, list) and value and rng.integers(6):
        i = int(rng.integers(min(len(value), 12)))
        return [*value[:i], _with_absurd(value[i], rng), *value[i + 1 :]]
    return _absurd(rng)


def _absurd(rng):
    return ABSURD[int(rng.integers(len(ABSURD)))]


def environment(mark):
    """The environment of a process that opens a hostile folder: nothing but the mark."""
    return {**os.environ, "HOSTILE_MARK": str(mark)}
