"""Whole models and weights that Keras reads: checked before Keras opens them, with one-sentence errors."""

import contextlib
import zipfile
import zlib

import h5py
import keras

from keras_bert_rebuild.checkpoints import torch_file
from keras_bert_rebuild.checkpoints.hdf5_limits import check_hdf5
from keras_bert_rebuild.files.json_text import parse_json
from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable, printable_lines
from keras_bert_rebuild.files.regular import check_regular
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.pretrained.zip_member import opened_member

WEIGHTS, CONFIG = "model.weights.h5", "config.json"

# Objects that hold programs, by their names in Keras configs. No model of this library has one.
PROGRAMS = ("Lambda", "__lambda__", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")

# The errors of Keras, h5py and zipfile for damaged bytes.
DAMAGED = (*torch_file.DAMAGED, zipfile.BadZipFile, zlib.error)


def load_keras_model(path):
    """A whole model that Keras saved, not compiled.

    Args:
        path: a .keras or .h5 file.

    Raises:
        ValueError: the file is damaged, holds programs, or unpacks to more than its size allows.
    """
    check_keras_file(path)
    with _reading(path, "a model of Keras"):
        # An .h5 file names classes without the package in which they are registered.
        return keras.saving.load_model(path, custom_objects={"BertModel": BertModel}, safe_mode=True, compile=False)


def load_keras_weights(model, path):
    """Fill a model from a .weights.h5 file.

    Raises:
        ValueError: the file is damaged or of another model.
    """
    check_keras_file(path)
    with _reading(path, "the weights of this model"):
        model.load_weights(path)


def check_keras_file(path):
    """Refuse a file whose parts are too large for it, or that names programs or links to other files.

    Raises:
        ValueError: what is wrong with it.
    """
    size = check_regular(path)
    with _reading(path, "a file of Keras"):
        if path.suffix == ".keras":
            with zipfile.ZipFile(path) as archive:
                _check_members(archive, size, path)
                check_config(parse_json(archive.read(CONFIG).decode("utf-8"), f"{CONFIG} of {path}"), path)
                with opened_member(archive, WEIGHTS) as weights, h5py.File(weights, "r") as file:
                    check_hdf5(file, size, path)
        else:
            with h5py.File(path, "r") as file:
                check_hdf5(file, size, path)
                config = file.attrs.get("model_config")
            if config is not None:
                config = config.decode("utf-8") if isinstance(config, bytes) else str(config)
                check_config(parse_json(config, f"the model_config of {path}"), path)


def check_config(config, path):
    """Refuse a config with an object that is a program; Keras's `safe_mode` refuses only some of them, and in one format.

    Args:
        config: the parsed JSON; `parse_json` limits its depth.
        path: the file, for errors.
    """
    if isinstance(config, dict):
        for key in ("class_name", "registered_name"):
            name = config.get(key)
            if isinstance(name, str) and name.rpartition(">")[2] in PROGRAMS:
                raise ValueError(f"{path} holds a program, {printable(name)}, which is not run.")
        config = config.values()
    if not isinstance(config, str):
        for value in config if hasattr(config, "__iter__") else ():
            check_config(value, path)


def _check_members(archive, size, path):
    members = archive.infolist()
    check_limit("zip_members", len(members), str(path))
    names = [member.filename for member in members]
    for name in (CONFIG, WEIGHTS):
        if names.count(name) != 1:
            raise ValueError(f"{path} is not a Keras file: it holds {names.count(name)} files named {name}.")
    unpacked = sum(member.file_size for member in members)
    maximum = max(limit("unpacked_floor_bytes"), limit("hdf5_ratio") * size)
    if unpacked > maximum:
        raise ValueError(f"{path} unpacks to {unpacked:,} bytes; a file of {size:,} bytes may have {maximum:,}.")
    check_limit("json_bytes", archive.getinfo(CONFIG).file_size, f"{CONFIG} of {path}")


@contextlib.contextmanager
def _reading(path, what):
    """Turn errors of a reader into one sentence with the file, unless they already name it."""
    try:
        yield
    except DAMAGED as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        reason = " ".join(printable_lines(error).split())[:400] or type(error).__name__
        raise ValueError(f"{path} is not {what} or is damaged: {type(error).__name__}: {reason}") from error
