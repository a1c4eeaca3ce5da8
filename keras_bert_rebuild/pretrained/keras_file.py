"""Whole models and weights in Keras's own formats, checked before Keras reads them, with one-sentence errors."""

import contextlib
import io
import struct
import zipfile
import zlib

import h5py
import keras

from keras_bert_rebuild.checkpoints import torch_file
from keras_bert_rebuild.checkpoints.hdf5 import check_hdf5
from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable, printable_lines
from keras_bert_rebuild.files.reading import check_regular, parse_json
from keras_bert_rebuild.models.bert_model import BertModel

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")


def opened_member(archive, name):
    """A seekable file of the content of a member.

    Args:
        archive: an open `zipfile.ZipFile`.
        name: name of the member.

    Raises:
        zipfile.BadZipFile: it is damaged.
    """
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        return io.BytesIO(archive.read(member))
    with open(archive.filename, "rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER.size)
    if len(header) != _LOCAL_HEADER.size:
        raise zipfile.BadZipFile(f"{name} begins after the end of the file")
    *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    return _FilePart(archive.filename, member.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes, member.file_size)


class _FilePart(io.RawIOBase):
    """A part of a file."""

    def __init__(self, path, start, size):
        self._file = open(path, "rb")  # noqa: SIM115  closed with this one
        self._start, self._size, self._at = start, size, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._at

    def seek(self, offset, whence=io.SEEK_SET):
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer):
        view = memoryview(buffer).cast("B")[: max(0, self._size - self._at)]
        self._file.seek(self._start + self._at)
        count = self._file.readinto(view)
        self._at += count
        return count

    def close(self):
        self._file.close()
        super().close()


WEIGHTS, CONFIG = "model.weights.h5", "config.json"

# Names, in Keras configs, of objects that contain code. No model of this library has one.
PROGRAMS = ("Lambda", "__lambda__", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")

# What Keras, h5py and zipfile raise for damaged bytes.
DAMAGED = (*torch_file.DAMAGED, zipfile.BadZipFile, zlib.error)


def load_keras_model(path):
    """A whole model saved by Keras, not compiled.

    Args:
        path: a .keras or .h5 file.

    Raises:
        ValueError: the file is damaged, contains code, or decompresses to more than its size allows.
    """
    check_keras_file(path)
    with reading(path, "a model of Keras"):
        # An .h5 file names classes without the package they are registered in.
        return keras.saving.load_model(path, custom_objects={"BertModel": BertModel}, safe_mode=True, compile=False)


def load_keras_weights(model, path):
    """Load a .weights.h5 file into a model.

    Raises:
        ValueError: the file is damaged or of another model.
    """
    check_keras_file(path)
    with reading(path, "the weights of this model"):
        model.load_weights(path)


def check_keras_file(path):
    """Refuse a file whose parts are too large for it, or that contains code or links to other files.

    Raises:
        ValueError: describes the problem.
    """
    size = check_regular(path)
    with reading(path, "a file of Keras"):
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
    """Refuse a config with an object that contains code; Keras's `safe_mode` refuses only some of them, in one format only.

    Args:
        config: the parsed JSON; `parse_json` limits its depth.
        path: the file, for errors.
    """
    if isinstance(config, dict):
        for key in ("class_name", "registered_name"):
            name = config.get(key)
            if isinstance(name, str) and name.rpartition(">")[2] in PROGRAMS:
                raise ValueError(f"{path} contains code, {printable(name)}, which is not run.")
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
            raise ValueError(f"{path} is not a Keras file: it has {names.count(name)} files named {name}.")
    unpacked = sum(member.file_size for member in members)
    maximum = max(limit("unpacked_floor_bytes"), limit("hdf5_ratio") * size)
    if unpacked > maximum:
        raise ValueError(f"{path} decompresses to {unpacked:,} bytes; the limit for its {size:,} bytes is {maximum:,}.")
    check_limit("json_bytes", archive.getinfo(CONFIG).file_size, f"{CONFIG} of {path}")


@contextlib.contextmanager
def reading(path, what):
    """Turn errors of a reader into one sentence with the file name, unless they already name it."""
    try:
        yield
    except DAMAGED as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        reason = " ".join(printable_lines(error).split())[:400] or type(error).__name__
        raise ValueError(f"{path} is not {what} or is damaged: {type(error).__name__}: {reason}") from error
