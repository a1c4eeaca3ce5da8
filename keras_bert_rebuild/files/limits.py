"""All limits on what is read from untrusted files, in one table.

A limit is far above what files in use need, and low enough that a small file cannot demand much memory or time: the resources of a
reader are bounded by the size of the file times a small number. The site shows the same table.
"""

import math
import numbers
from typing import NamedTuple

import numpy as np


class Limit(NamedTuple):
    """A maximum of something that a file may have."""

    number: int
    unit: str
    why: str


LIMITS = {
    # Text formats.
    "json_bytes": Limit(64 << 20, "bytes", "tokenizer.json of XLM-RoBERTa has 17 MB; a string may take four times its bytes"),
    "json_values": Limit(6_000_000, "values", "an empty list takes 64 bytes in memory and two in the file"),
    "json_depth": Limit(64, "levels", "configs have five; code that visits all values recurses once per level"),
    "labelled_json_bytes": Limit(1 << 30, "bytes", "a file of questions in SQuAD's format, 40 MB, is one JSON value"),
    "labelled_json_values": Limit(60_000_000, "values", "commas of its texts count as well"),
    "store_index_bytes": Limit(1 << 30, "bytes", "a kilobyte for each shard of 4 MB of text"),
    "yaml_bytes": Limit(1 << 20, "bytes", "settings have two kilobytes, and versions.yaml 300 bytes more for every start"),
    "yaml_depth": Limit(32, "levels", "settings have three"),
    "settings_bytes": Limit(64 << 10, "bytes", "one line of a git file, such as HEAD, or a small file of settings"),
    "vocabulary_bytes": Limit(64 << 20, "bytes", "a million tokens have about 15 MB; merges and SentencePiece models less"),
    "added_tokens": Limit(10_000, "tokens", "they become one regular expression; models in use add a few hundred"),
    "added_token_characters": Limit(1_000_000, "characters", "of all added tokens; models in use have under 100,000"),
    "unused_ids": Limit(1_000_000, "ids without a token", "lists over ids grow with the largest; vocabularies in use have a few"),
    "replacement_growth": Limit(1000, "times the length of a text", "chained replacements multiply; in use they add marks"),
    "cell_characters": Limit(10_000_000, "characters", "the text of a book has a million; it is cut to hundreds of tokens"),
    "document_id_characters": Limit(512, "characters", "ids of public corpora have at most a hundred; they are sorted in memory"),
    "metrics_columns": Limit(1000, "columns", "a run records tens of numbers; each is a chart of its curves"),
    # Compressed files.
    "unpacked_ratio": Limit(50, "times", "text shrinks to a third or a tenth, a bomb to a thousandth"),
    "unpacked_floor_bytes": Limit(16 << 20, "bytes", "unpacked at any ratio"),
    # Configs: what is built from them.
    "vocab_size": Limit(10_000_000, "tokens", "the largest vocabulary in use has a million"),
    "hidden_size": Limit(65_536, "numbers", "the widest BERT has 2,560"),
    "intermediate_size": Limit(1 << 20, "numbers", "four times the widest vector, with room"),
    "num_hidden_layers": Limit(512, "layers", "the deepest model in use has 96; each takes milliseconds to build"),
    "num_attention_heads": Limit(4096, "heads", "the most in use are 128"),
    "max_position_embeddings": Limit(1 << 22, "positions", "the longest in use have 100,000"),
    "type_vocab_size": Limit(65_536, "segments", "in use are 0, 1, 2 and 16"),
    "num_tasks": Limit(1 << 20, "tasks", "rows of a table"),
    "labels": Limit(1 << 20, "labels", "names of classes; the largest public sets have 670,000"),
    "factor": Limit(1000, "times", "epsilons and deviations are below 1; a whole number of 400 digits is not a float"),
    "missing_parameters": Limit(64_000_000, "numbers", "how many more than four times those of its file a config may describe"),
    # Files of weights.
    "modules": Limit(64, "modules", "layers after the encoder of a sentence-transformers folder; those in use have at most ten"),
    "arrays": Limit(100_000, "arrays", "the deepest BERT in use has 800"),
    "name_characters": Limit(4096, "characters", "names of arrays; those in use have under 200"),
    "array_dimensions": Limit(32, "dimensions", "as many as NumPy had for decades"),
    "safetensors_header_bytes": Limit(16 << 20, "bytes", "a hundred bytes per array"),
    "tensorflow_index_bytes": Limit(32 << 20, "bytes", "the index of BERT-large has 20 kB"),
    "hdf5_ratio": Limit(20, "times", "declared values relative to bytes of the file; weights hardly compress"),
    "hdf5_floor_bytes": Limit(64 << 20, "bytes", "declared at any ratio"),
    "hdf5_objects": Limit(200_000, "objects", "groups and arrays of one file"),
    "torch_pickle_bytes": Limit(4 << 20, "bytes", "the names of the tensors of a torch file, old or new; 130 bytes per tensor"),
    "zip_members": Limit(100_000, "files", "a torch file has one per tensor"),
    # Patterns in files.
    "patterns": Limit(100, "patterns", "regular expressions over names of weights; the default is one"),
    "pattern_characters": Limit(500, "characters", "regular expressions over names of weights"),
    "pattern_repetitions": Limit(3, "repetitions", "a search takes at most the length of a name to this power"),
    # Time and memory, as measured by the attack set.
    "seconds": Limit(10, "seconds", "the longest that one hostile file of the attack set may take"),
    "memory_bytes": Limit(1 << 30, "bytes", "the maximum memory that it may take in addition to that of the process"),
}


def limit(name):
    """The value of a limit."""
    return LIMITS[name].number


def check_limit(name, number, what):
    """Refuse a number above a limit.

    Args:
        name: name of the limit.
        number: the number to check.
        what: what has this number, for the error, such as "the header of model.safetensors".

    Raises:
        ValueError: the number is above the limit.
    """
    maximum, unit, _ = LIMITS[name]
    if number > maximum:
        raise ValueError(f"{what} must have at most {maximum:,} {unit}; got {_shown(number)}.")


def _shown(number):
    return f"{number:,}" if number < 10**20 else f"a number of {len(hex(number)) - 2} hexadecimal digits"


def is_number(value):
    """Whether a value is a finite real number and not a bool."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False


def all_finite(array):
    """Whether an array has only finite numbers: no NaN and no infinity."""
    with np.errstate(invalid="ignore"):
        return math.isfinite(array.sum(dtype="float64"))  # no array of booleans is needed
