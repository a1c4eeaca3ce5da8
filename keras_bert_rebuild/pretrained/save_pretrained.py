"""Save a model in the formats of other libraries."""

import json
import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.safetensors_files import write_safetensors
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert_rebuild.checkpoints.transfer import arrays_to_write
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import FAMILIES, table_of
from keras_bert_rebuild.files.folders import written_folder
from keras_bert_rebuild.files.kinds import MODEL, TOKENIZER_NAMES
from keras_bert_rebuild.files.output import check_folder
from keras_bert_rebuild.models.heads import heads_of, named_heads_of
from keras_bert_rebuild.pretrained.card_files import write_card
from keras_bert_rebuild.pretrained.config_files import config_to_google, config_to_huggingface
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files, with_vocabulary
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

FORMATS = ("huggingface", "google", "keras")

# Patterns of the names of files that `write_safetensors` writes.
WEIGHTS = ("model.safetensors", "model-?????-of-?????.safetensors", "model.safetensors.index.json")

MAX_SHARD_BYTES = 5_000_000_000


def save_pretrained(
    model: keras.Model,
    path: str | os.PathLike[str],
    format: str = "huggingface",
    *,
    vocabulary: BatchTokenizer | Mapping[str, int] | Sequence[str] | str | os.PathLike[str] | None = None,
    config: BertConfig | None = None,
    dtype: str | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> None:
    """Write a model into a folder that other libraries can read, with a model card, README.md.

    The folder is written atomically. An existing model in it is replaced: files of the same names, a model.safetensors by shards
    and vice versa, tokenizer files if new ones are written, and a card that was not changed. Other files are kept; a folder of
    another kind, such as a token store or a training run, is refused.

    Args:
        model: from `get_model`, `build_model` or `from_pretrained`.
        path: the folder.
        format: "huggingface" (model.safetensors, config.json and the tokenizer's files, for `AutoModel` and `AutoTokenizer`),
            "google" (bert_model.ckpt, bert_config.json, vocab.txt) or "keras" (model.keras and the tokenizer's files).
        vocabulary: a tokenizer of this library, a dictionary from token to id, a list of tokens or the path of a vocab.txt; None
            for the tokenizer files that were loaded with the model.
        config: the `BertConfig` of a model assembled by hand, which has none.
        dtype: dtype of the arrays, "float32" or "float16"; None for that of the variables.
        max_shard_bytes: a larger model.safetensors is split into shards.

    Raises:
        ValueError: lists the variables that the format has no name for, or the config values it cannot represent; or the folder is
            of another kind.
        OSError: writing fails, or another run is writing the folder.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}; got {format!r}.")
    check_folder(path, MODEL)
    config = _config(model, config)
    files = _tokenizer_files(model, vocabulary, config)
    if format == "huggingface":
        write_huggingface(model, path, files, config=config, dtype=dtype, max_shard_bytes=max_shard_bytes)
        return
    if format == "keras":
        write_keras(model, path, files, config=config)
        return
    table = getattr(FAMILIES.get(config.family), "GOOGLE", None)
    if table is None:
        raise ValueError(f"Google's format has no names for the family {config.family}.")
    arrays = _arrays(model, table, config, dtype)
    values = config_to_google(config)
    if isinstance(vocabulary, WordPieceTokenizer):  # its added tokens have no other file
        files = vocabulary_files(vocabulary.vocabulary, config.max_length)
    with written_folder(path) as folder:
        write_tensorflow_checkpoint(folder / "bert_model.ckpt", arrays)
        _write_json(folder / "bert_config.json", values)
        _write_files(folder, {name: content for name, content in files.items() if name == "vocab.txt"})
        write_card(folder, model, config, replaced=path)


def write_keras(model, path, files, *, config=None):
    """Write model.keras and other files; see `write_huggingface` for the arguments."""
    check_folder(path, MODEL)
    with written_folder(path, replaced=_files_to_replace(files)) as folder:
        model.save(folder / "model.keras")
        _write_files(folder, files)
        write_card(folder, model, config, replaced=path)


def write_huggingface(model, path, files, *, config=None, dtype=None, max_shard_bytes=MAX_SHARD_BYTES):
    """Write model.safetensors, config.json and other files.

    Args:
        model, path, dtype, max_shard_bytes: see `save_pretrained`.
        files: name to bytes; tokenizer files replace those of another tokenizer.
        config: the config; None for that of the model.
    """
    check_folder(path, MODEL)
    config = _config(model, config)
    heads, table = heads_of(model), table_of(config)
    arrays = _arrays(model, table, config, dtype)
    values = config_to_huggingface(config, heads, dtype or model.weights[0].dtype)
    if set(heads) <= {"pooler"}:  # a file of the bare encoder
        arrays = ((name.removeprefix(table.prefix), array) for name, array in arrays)
    with written_folder(path, replaced=(*WEIGHTS, *_files_to_replace(files))) as folder:
        write_safetensors(folder, arrays, max_shard_bytes)
        _write_json(folder / "config.json", values)
        _write_files(folder, files)
        write_card(folder, model, config, replaced=path)


def _config(model, config):
    config = getattr(model, "config", None) if config is None else config
    if config is None:
        raise ValueError("config must be the BertConfig of a model assembled by hand, which has none of its own; got None.")
    return config


def _tokenizer_files(model, vocabulary, config):
    if vocabulary is not None:
        return vocabulary_files(vocabulary, config.max_length)
    report = getattr(model, "load_report", None)
    return with_vocabulary(report.tokenizer_files if report else {}, config.max_length)


def _files_to_replace(files):
    """Names of all tokenizer files, if tokenizer files are written."""
    return TOKENIZER_NAMES if set(TOKENIZER_NAMES).intersection(files) else ()


def _arrays(model, table, config, dtype):
    """Names and arrays in a format, cast to this dtype."""
    arrays = arrays_to_write(model.weights, table.rows(config.num_distinct_blocks, named_heads_of(model)))
    return ((name, array if dtype is None else array.astype(np.dtype(dtype))) for name, array in arrays)


def _write_files(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def _write_json(path, values):
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
