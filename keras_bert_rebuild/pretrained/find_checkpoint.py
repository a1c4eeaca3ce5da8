"""Recognise the checkpoint at a path by its contents."""

import math
import os
from collections import namedtuple
from pathlib import Path

from keras_bert_rebuild.checkpoints.hdf5 import KerasH5, huggingface_name, keras_bert_name, names_in_keras_2_file
from keras_bert_rebuild.checkpoints.safetensors_files import INDEX, SafetensorsFiles
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import TensorFlowCheckpoint, checkpoint_prefix
from keras_bert_rebuild.checkpoints.torch_file import INDEX as TORCH_INDEX
from keras_bert_rebuild.checkpoints.torch_file import TorchFile
from keras_bert_rebuild.config import HEADS, BertConfig
from keras_bert_rebuild.families import google_table_of, huggingface_of, own, table_of
from keras_bert_rebuild.families.bert_in_keras import KERAS_BERT, MODEL_GARDEN
from keras_bert_rebuild.files.hub import located
from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, heads_of_class, read_json
from keras_bert_rebuild.pretrained.config_of_layers import config_from_keras_2
from keras_bert_rebuild.pretrained.keras_file import check_keras_file

# Description of the format, config, name table, reader of the arrays, heads in the file, folder, file, and what is missing of the
# class that the config names, if some of its heads is there in part. Our own Keras files have no table and no reader: Keras reads
# them.
Checkpoint = namedtuple("Checkpoint", ["format", "config", "table", "source", "heads", "folder", "file", "missing"], defaults=[()])

# Hugging Face's weight files in order of preference, and their readers.
HUGGINGFACE_FILES = (
    ("model.safetensors", SafetensorsFiles),
    (INDEX, SafetensorsFiles),
    ("pytorch_model.bin", TorchFile),
    (TORCH_INDEX, TorchFile),
    ("tf_model.h5", lambda path: KerasH5(path, huggingface_name)),
)

# The files of an adapter (PEFT), which changes the weights that it is for.
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


def find_checkpoint(path, config=None, revision=None):
    """Find the checkpoint at a path; reads its config and names, but no weights.

    Args:
        path: a folder or file in one of the formats of `from_pretrained`, or a name on the Hugging Face hub.
        config: a `BertConfig` or the path of a config file, for weights without a config file next to them.
        revision: see `hub.located`.

    Returns:
        A `Checkpoint`.

    Raises:
        ValueError: the path does not exist or cannot be read.
    """
    path = located_model(path, revision)
    if path.is_dir():
        return _find_in_folder(path, config)
    if not path.exists():
        return _find_prefix(path, config)
    check_regular(path)
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(b"PK") and path.suffix == ".keras":
        return _keras_file(path)
    if start.startswith(HDF5_MAGIC):
        return _hdf5_file(path, config)
    if path.suffix == ".safetensors" or path.name.endswith(INDEX):
        return _huggingface(path, SafetensorsFiles, config)
    if path.name.endswith(TORCH_INDEX):
        return _huggingface(path, TorchFile, config)
    if path.suffix in (".bin", ".pt", ".pth") and (start.startswith((b"PK", b"\x80"))):
        return _huggingface(path, TorchFile, config)
    if path.suffix in (".index", ".meta", ".ckpt") or ".data-" in path.name:
        return _tensorflow(path, config)
    raise ValueError(
        f"{path} must be a supported file: .keras, .h5, .safetensors, pytorch_model.bin, or a file of a TensorFlow checkpoint."
    )


def located_model(path: str | os.PathLike[str], revision: str | None = None) -> Path:
    """The path of a model, which is downloaded if it is a name on the hub and the config there is of a family that can be read."""
    return located(path, revision, check_config=_check_family)


def _check_family(path):
    """Refuse the config.json of another family, or of a decoder, before its weights are downloaded."""
    config_from_huggingface(read_json(path, "the config.json of a Hugging Face model"), path)


def _find_in_folder(folder, config):
    for name, reader in HUGGINGFACE_FILES:
        if (folder / name).exists():
            _check_no_adapter(folder, name)
            return _huggingface(folder / name, reader, config)
    if list(folder.glob("*.index")):
        return _tensorflow(folder, config)
    files = sorted([*folder.glob("*.keras"), *folder.glob("*.h5")])
    if len(files) == 1:
        return find_checkpoint(files[0], config)
    _check_no_adapter(folder, "weights of a whole model")
    inside = sorted(child.name for child in folder.iterdir())
    file_names = ", ".join(name for name, _ in HUGGINGFACE_FILES)
    raise ValueError(
        f"expected a folder with one of {file_names}, bert_model.ckpt.index, or one .keras or .h5 file; "
        f"{folder} has {', '.join(map(printable, inside[:10])) or 'no files'}."
    )


def _check_no_adapter(folder, beside):
    """Refuse an adapter of PEFT, without which the weights compute something else."""
    adapter = next((name for name in ADAPTER_FILES if (folder / name).exists()), None)
    if adapter is not None:
        raise ValueError(
            f"expected {beside} alone; {folder} has {adapter}, an adapter, which is not applied: merge it into the weights with "
            "merge_and_unload of peft, or name the file of weights instead of the folder to load them without it."
        )


def _find_prefix(path, config):
    if Path(f"{path}.index").exists():
        return _tensorflow(path, config)
    raise ValueError(f"there is no file or folder {path}, and no checkpoint {path}.index.")


def _config_beside(path, config, names, what):
    """The values of a config file and its path: the given file, or the first of these names next to the weights."""
    if isinstance(config, BertConfig):
        return config, None
    if config is not None:
        return read_json(config, what), config
    for name in names:
        if (path.parent / name).is_file():
            return read_json(path.parent / name, what), path.parent / name
    raise ValueError(f"expected {' or '.join(names)} next to {path}; none exists, and no config was given.")


def _huggingface(path, reader, config):
    values, where = _config_beside(path, config, ["config.json"], "the config.json of a Hugging Face model")
    source = reader(path)
    if isinstance(values, BertConfig):
        config, of_class = values, None
    else:
        config, of_class = config_from_huggingface(values, where), heads_of_class(values)
    config = own(huggingface_of(config.family), "fitted")(config, source.names)
    table = table_of(config)
    _check_size(config, source, path, where)
    heads = _heads_in(table, config, source)
    missing = () if of_class is None else _missing_of(of_class, table, config, source)
    if of_class is not None and (missing or set(of_class) <= set(heads)):
        heads = tuple(head for head in heads if head in of_class)
    else:
        heads = tuple(head for head in heads if head not in _heads_ruled_out(heads, table, config, source))
    return Checkpoint(f"Hugging Face, {path.name}", config, table, source, heads, path.parent, path, missing)


def _missing_of(heads, table, config, source):
    """The names that a file lacks of those of these heads of which it has a part; the pooler alone is not a part."""
    names, blocks = _canonical_names(table, config, source), config.num_distinct_blocks
    elsewhere = set(table.rows(blocks, ("pooler",)))
    own = {head: {row.name for row in table.heads[head] if row not in elsewhere and row.use == "both"} for head in heads}
    return tuple(name for head in heads if own[head] & names for name in table.missing_of(head, blocks, names))


def check_whole(checkpoint):
    """Refuse a checkpoint with only a part of a head of the class that its config names.

    Raises:
        ValueError: says what is missing.
    """
    if checkpoint.missing:
        raise ValueError(
            f"expected the class that config.json names; {checkpoint.file} has only a part of its head, without "
            f"{', '.join(checkpoint.missing)}: from_pretrained with heads=[] loads the encoder alone."
        )


def _heads_ruled_out(heads, table, config, source):
    """The heads to exclude if no class is named, since three heads have files with "classifier.weight"."""
    if "classification" in heads:
        rows = {head: {row.name for row in table.rows(0, (head,)) if row.use == "both"} for head in heads}
        return tuple(head for head in heads if head not in ("classification", "pooler") and rows[head] <= rows["classification"])
    if "multiple_choice" not in heads:
        return ()
    # RoBERTa has other names for classification. Of the other two, only multiple choice needs a pooler, but both may have one.
    names_of_table = {row.name for row in table.rows(config.num_distinct_blocks)}
    outputs = [source.shape(name)[0] for name in source.names if table.canonical(name, names_of_table) == "classifier.bias"]
    return ("token_classification",) if outputs == [1] else ("multiple_choice",)


def _tensorflow(path, config):
    prefix = checkpoint_prefix(path)
    names = ["bert_config.json", "xlnet_config.json", "config.json"]
    values, where = _config_beside(prefix, config, names, "the bert_config.json of a TensorFlow checkpoint")
    source = TensorFlowCheckpoint(prefix)
    config = values if isinstance(values, BertConfig) else config_from_google(values, where)
    _check_size(config, source, prefix, where)
    of_objects = any(name.endswith(".ATTRIBUTES/VARIABLE_VALUE") for name in source.names)
    table, format = (MODEL_GARDEN, "Model Garden") if of_objects else (google_table_of(config), "Google")
    heads = _heads_in(table, config, source)
    if "classification" in heads and not config.labels:
        (count,) = source.shape("output_bias")
        check_limit("labels", count, f"output_bias in {prefix.name}")
        config = config.replace(labels=tuple(f"LABEL_{i}" for i in range(count)))
    return Checkpoint(f"{format}, {prefix.name}", config, table, source, heads, prefix.parent, prefix)


def _hdf5_file(path, config):
    names = names_in_keras_2_file(path)
    if names is None:
        values, where = _config_beside(path, config, ["config.json", "bert_config.json"], "a config for a file of weights")
        if not isinstance(values, BertConfig):
            if str(values.get("module")).startswith("keras_hub"):
                raise ValueError(
                    f"{path} is part of a KerasHub preset, whose weights have no names; expected the checkpoint that it was "
                    "converted from, such as the folder on the Hugging Face hub."
                )
            values = config_from_huggingface(values, where) if "model_type" in values else config_from_google(values, where)
        return Checkpoint("Keras weights", values, None, None, (), path.parent, path)
    if any(name.endswith("FeedForward/intermediate/kernel") for name in names):
        return _keras_file(path)
    if not any("Encoder-1-FeedForward_W1" in name for name in names):
        return _huggingface(path, dict(HUGGINGFACE_FILES)["tf_model.h5"], config)
    source = KerasH5(path, keras_bert_name)
    if config is None and source.model_config is not None:
        config, where = config_from_keras_2(source.model_config, path), path
    else:
        values, where = _config_beside(path, config, ["bert_config.json"], "the bert_config.json of a file of keras_bert's weights")
        config = values if isinstance(values, BertConfig) else config_from_google(values, where)
    _check_size(config, source, path, where)
    heads = _heads_in(KERAS_BERT, config, source)
    return Checkpoint(f"keras_bert, {path.name}", config, KERAS_BERT, source, heads, path.parent, path)


def _keras_file(path):
    check_keras_file(path)
    return Checkpoint(f"Keras, {path.name}", None, None, None, None, path.parent, path)


def _check_size(config, source, path, where):
    """Refuse a config that describes far more than its file has, before names or layers are created."""
    if isinstance(config, BertConfig) and where is None:  # given by the caller
        return
    names = source.names
    if config.num_distinct_blocks > len(names):
        raise ValueError(
            f"{where} describes {config.num_distinct_blocks:,} layers with weights; {path.name} has {len(names):,} arrays."
        )
    parameters, stored = config.num_params(("pooler",)), sum(math.prod(source.shape(name)) for name in names)
    if parameters > 4 * stored + limit("missing_parameters"):
        raise ValueError(f"{where} describes {parameters:,} parameters; {path.name} has {stored:,}.")


def _heads_in(table, config, source):
    """The heads whose names are all in the file."""
    heads = table.heads_in(config.num_distinct_blocks, _canonical_names(table, config, source))
    return tuple(head for head in HEADS if head in heads)


def _canonical_names(table, config, source):
    names_of_table = {row.name for row in table.rows(config.num_distinct_blocks)}
    return {table.canonical(name, names_of_table) for name in source.names}
