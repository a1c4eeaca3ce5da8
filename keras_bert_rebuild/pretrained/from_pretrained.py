"""Load any checkpoint, or list what is in it, name by name."""

import contextlib
import math
import os
import warnings
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert_rebuild.checkpoints.loaded_values import METHODS
from keras_bert_rebuild.checkpoints.transfer import LoadReport, load_variables
from keras_bert_rebuild.config import BertConfig, check_heads
from keras_bert_rebuild.files.hub import origin_of
from keras_bert_rebuild.kernels import unwritten
from keras_bert_rebuild.layers.keras_layers import skipped_initialization
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model, dtype_scope, set_trainable
from keras_bert_rebuild.models.heads import heads_of, named_heads_of, without_implied
from keras_bert_rebuild.pretrained.card_files import base_of
from keras_bert_rebuild.pretrained.find_checkpoint import check_whole, find_checkpoint
from keras_bert_rebuild.pretrained.keras_file import load_keras_model, load_keras_weights
from keras_bert_rebuild.pretrained.late_interaction_folder import PROJECTION, is_stanford_colbert
from keras_bert_rebuild.pretrained.tokenizer_files import read_tokenizer_files


def from_pretrained(
    path: str | os.PathLike[str],
    *,
    heads: Sequence[str] | None = None,
    seq_len: int | None = None,
    output_layer_num: int | Sequence[int] = 1,
    dtype: str | None = None,
    strict: bool = True,
    trainable: bool | Sequence[str] = True,
    extend_positions: str | None = None,
    config: BertConfig | str | os.PathLike[str] | None = None,
    padding_mask: bool = False,
    revision: str | None = None,
) -> BertModel:
    """Load a model of BERT's family from the checkpoint at a path, or by its name on the Hugging Face hub.

    Supported are folders and files of Hugging Face (model.safetensors, also in shards; pytorch_model.bin if torch is installed;
    tf_model.h5), Google's TensorFlow checkpoints and those of the Model Garden (folder, prefix or any of their files, without
    TensorFlow), keras_bert's .h5 files, and Keras files of this library (.keras, .h5, .weights.h5).

    Args:
        path: the folder or file; or a name such as "google-bert/bert-base-uncased", "bert-base-uncased" or "name@revision", whose
            files are downloaded once, see `hub.located`. A file or folder of that name wins.
        heads: names of the heads to load, from `config.HEADS`; empty for the bare encoder. None loads all heads of the checkpoint,
            or none if `output_layer_num` is given. A .keras or .h5 file of this library always loads with its own heads.
        seq_len: static length of the inputs, at most the maximum length of the checkpoint, to which the position table is cut. None
            for any length.
        output_layer_num: without heads, the number of last blocks to output, see `get_model`.
        dtype: dtype policy, such as "mixed_bfloat16"; None for the global policy.
        strict: refuse a checkpoint with missing weights, or with encoder weights that the model does not use. Otherwise missing
            weights stay newly initialised, with a warning.
        trainable: True, False, or a list of prefixes of the names of trainable layers.
        extend_positions: "repeat", "interpolate" or "hierarchical": how to extend the position table for a larger `seq_len`.
        config: a `BertConfig` or the path of a config file, if there is none next to the weights.
        padding_mask: take the padding mask from an additional input `Input-Mask` instead of the padding id.
        revision: of a name, the branch, tag or commit; None for the main branch. The `load_report` says which commit it was.

    Returns:
        A `BertModel`, see `build_model`, with its `config` and a `load_report` of what was loaded.

    Raises:
        ValueError: describes the problem in one sentence, or lists everything that does not match.
    """
    if extend_positions is not None and extend_positions not in METHODS:
        raise ValueError(f"extend_positions must be one of {', '.join(METHODS)}; got {extend_positions!r}.")
    checkpoint = find_checkpoint(path, config, revision)
    # Weights that are filled from the file need no initial values; those that may stay as they are do.
    initialization = skipped_initialization(unwritten) if strict else contextlib.nullcontext()
    with dtype_scope(dtype), initialization:
        if checkpoint.format.startswith("Keras,"):
            chosen = {
                "seq_len": seq_len is not None,
                "output_layer_num": output_layer_num != 1,
                "dtype": dtype is not None,
                "padding_mask": padding_mask,
            }
            return _load_keras(checkpoint, trainable, heads, [name for name, is_chosen in chosen.items() if is_chosen])
        model = build_model(
            _with_length(checkpoint.config, seq_len, extend_positions),
            _chosen_heads(checkpoint, heads, output_layer_num),
            seq_len=seq_len,
            output_layer_num=output_layer_num,
            trainable=trainable,
            padding_mask=padding_mask,
        )
    if checkpoint.source is None:
        load_keras_weights(model, checkpoint.file)
        report = LoadReport(loaded=[(v.path, v.path, tuple(v.shape)) for v in model.weights])
    else:
        report = _load(model, checkpoint, strict, extend_positions)
    return _finished(model, report, checkpoint)


def _load(model, checkpoint, strict, extend_positions):
    table, blocks = checkpoint.table, model.config.num_distinct_blocks
    rows = table.rows(blocks, named_heads_of(model))
    report = load_variables(
        model.weights,
        checkpoint.source,
        table,
        rows,
        # A tied table may be in the file only under the name of a head that is not loaded.
        aliases=[row for row in table.rows(blocks) if row.use == "read" and row not in rows],
        where=checkpoint.file,
        strict=strict,
        position_offset=model.config.position_offset,
        extend_positions=extend_positions,
    )
    if report.missing:
        warnings.warn(
            f"{len(report.missing)} of {len(model.weights)} variables are newly initialised: "
            + ", ".join(path for path, _ in report.missing[:5])
            + (", ..." if len(report.missing) > 5 else ""),
            stacklevel=3,
        )
    _warn_of_unknown_weights(report, checkpoint)
    return report


def _warn_of_unknown_weights(report, checkpoint):
    """Warn about weights of no head of the family: the user's own layers, without which outputs differ."""
    known = {row.name for row in checkpoint.table.rows(checkpoint.config.num_distinct_blocks)}
    unknown = [name for name in report.unused if checkpoint.table.canonical(name, known) not in known]
    if unknown == [PROJECTION] and is_stanford_colbert(checkpoint.folder):
        return  # `load_task` loads them
    if unknown:
        is_whole = getattr(checkpoint.source, "model_config", None) is not None
        remedy = "; load_keras_2_model loads the whole model" if is_whole else "; load_report.unused lists them"
        warnings.warn(
            f"{checkpoint.file} has {len(unknown)} weights that do not belong to {checkpoint.config.family} and were ignored: "
            + ", ".join(unknown[:5])
            + (", ..." if len(unknown) > 5 else "")
            + f"{remedy}.",
            stacklevel=4,
        )


def _finished(model, report, checkpoint):
    origin = origin_of(checkpoint.folder)
    file = checkpoint.file if origin is None else f"{checkpoint.file.name} of {origin}"
    report.source, report.folder = f"{file} ({checkpoint.format})", str(checkpoint.folder)
    report.tokenizer_files, report.base = read_tokenizer_files(checkpoint.folder), base_of(checkpoint.folder)
    model.load_report = report
    return model


def _load_keras(checkpoint, trainable, heads, chosen):
    if chosen:
        raise ValueError(f"{checkpoint.file} is a whole model, for which {', '.join(chosen)} cannot be chosen.")
    check_heads(heads or ())
    model = load_keras_model(checkpoint.file)
    present = heads_of(model)
    if heads is not None and set(without_implied(heads)) != set(present):
        raise ValueError(
            f"{checkpoint.file} is a whole model, for which heads cannot be chosen; it has {', '.join(present) or 'none'}, and "
            f"{', '.join(heads) or 'none'} were requested."
        )
    if trainable is not True:
        set_trainable(model.layers, trainable)
    report = LoadReport(loaded=[(v.path, v.path, tuple(v.shape)) for v in model.weights])
    return _finished(model, report, checkpoint)


def _with_length(config, seq_len, extend_positions):
    if seq_len is None:
        return config
    if seq_len > config.max_length and extend_positions is None and not config.encoder().any_length:
        raise ValueError(
            f"the checkpoint has {config.max_length} positions, but seq_len={seq_len} needs more: choose extend_positions from "
            f"{', '.join(METHODS)}, or a shorter seq_len."
        )
    return config.replace(max_position_embeddings=seq_len + config.position_offset)


# Heads with an output for every label of the config.
LABELLED = ("classification", "token_classification")


def _chosen_heads(checkpoint, heads, output_layer_num):
    if heads is None and output_layer_num == 1:
        check_whole(checkpoint)
        heads = without_implied(checkpoint.heads)
    labelled = [head for head in heads or () if head in LABELLED]
    if labelled and not checkpoint.config.labels:
        raise ValueError(f"the config of {checkpoint.file} must have labels for the head {labelled[0]}; it has none.")
    if not heads and not checkpoint.config.num_hidden_layers:
        raise ValueError(f"the config of {checkpoint.file} must describe encoder blocks, as no head is loaded; it has none.")
    return heads or ()


# A name in the file, its shape, dtype and number of values, and our variable for it: several, separated by commas, if the array is
# their concatenation, "-" if it is not a weight, and "?" if it is unknown.
NameRow = namedtuple("NameRow", ["name", "shape", "dtype", "parameters", "path"])


def inspect_checkpoint(path: str | os.PathLike[str], config: BertConfig | str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """List what `from_pretrained` would load.

    Args:
        path: a folder or file, see `from_pretrained`.
        config: see `from_pretrained`.

    Returns:
        A dictionary: `file`, `format`, `family`, `config` (the fields of a `BertConfig`), `heads`, `names` (a list of `NameRow`).
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
    for row in rows:  # of heads that share a name, the next loop chooses the one in the file
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
