"""`pytorch_model.bin`, one file or several with an index; the list of tensors is checked before torch reads it."""

import importlib.util
import io
import pickle
import pickletools
import re
import struct
import zipfile
import zlib
from importlib import metadata
from pathlib import Path

from keras_bert_rebuild.checkpoints.safetensors_files import check_index, files_of_index
from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular

# Before this version, `weights_only=True` could be bypassed: CVE-2025-32434.
SAFE_VERSION = (2, 6)

# A file of torch before 1.6 starts with these pickles: magic number, version, machine, tensors, storages.
_OLD_PICKLES = 5

# Types for which torch would allocate as much memory as a number in the pickle says; a state dictionary needs none of them.
_FILLED = {"builtins bytearray", "__builtin__ bytearray"}


def check_torch_version(path):
    """Refuse versions of torch whose weights-only reader can be made to run code.

    Raises:
        ValueError: torch is too old.
    """
    version = metadata.version("torch")
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < SAFE_VERSION:
        minimum = ".".join(map(str, SAFE_VERSION))
        raise ValueError(
            f"{path} can only be read safely by torch {minimum} or later; got {version}: pip install --upgrade torch, or save the "
            "model as model.safetensors."
        )


def check_zip(path):
    """Refuse a zip file (torch 1.6 or later) with too many members, compressed members, or too long a list of tensors.

    Raises:
        ValueError: the file is of this kind, or not a zip file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_limit("zip_members", len(members), str(path))
            for member in members:
                if member.compress_type != zipfile.ZIP_STORED:
                    raise ValueError("it is compressed, which torch's own files are not")
                if member.filename.endswith("data.pkl"):
                    check_limit("torch_pickle_bytes", member.file_size, "the list of tensors")
                    _check_pickle(io.BytesIO(archive.read(member)))
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, IndexError) as error:
        raise ValueError(f"{path} is not a PyTorch state dictionary, or is damaged: {str(error).rstrip('.')}.") from None


def check_old_format(path):
    """Refuse a file of torch before 1.6 with too long a list of tensors; the pickles precede the values.

    Raises:
        ValueError: the file is of this kind, or of another format.
    """
    size = limit("torch_pickle_bytes")
    with open(path, "rb") as file:
        beginning = io.BytesIO(file.read(size + 1))
    try:
        for _ in range(_OLD_PICKLES):
            _check_pickle(beginning)
    except (ValueError, IndexError) as error:
        if beginning.tell() > size:
            check_limit("torch_pickle_bytes", path.stat().st_size, f"the list of tensors of {path}")
        raise ValueError(f"{path} is not a PyTorch state dictionary, or is damaged: {str(error).rstrip('.')}.") from None


def _check_pickle(file):
    """Scan the next pickle of a file without executing it.

    Raises:
        ValueError: it is truncated, not a pickle, or allocates memory by a number.
    """
    for operation, argument, _ in pickletools.genops(file):
        if operation.name == "GLOBAL" and argument in _FILLED:  # torch's reader supports no other opcode for names
            raise ValueError("expected tensors; found a bytearray")


def check_tensors(tensors, path):
    """Refuse tensors whose values are not all in the file.

    Args:
        tensors: name to tensor.
        path: the file, for error messages.

    Raises:
        ValueError: too many tensors, a sparse one, one without data, or one whose storage is smaller than its shape.
    """
    check_limit("arrays", len(tensors), str(path))
    for name, tensor in tensors.items():
        kind = str(tensor.layout).removeprefix("torch.")
        if kind != "strided" or tensor.device.type != "cpu" or tensor.is_quantized:
            what = f"{kind} on {tensor.device.type}" + (", quantised" if tensor.is_quantized else "")
            raise ValueError(f"{path} must have dense tensors with data; {name} is {what}.")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise ValueError(f"{path} is damaged: {name} has fewer values than its shape {tuple(tensor.shape)}.")


INDEX = "pytorch_model.bin.index.json"

# What unpickling damaged bytes raises.
DAMAGED = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)


class TorchFile:
    """The arrays of a PyTorch state dictionary by name.

    Args:
        path: the file, or the `.index.json` of several files.

    Raises:
        ValueError: torch is not installed; a file is missing, damaged or not only of tensors; or a name is in two files.
    """

    def __init__(self, path):
        path = Path(path)
        if importlib.util.find_spec("torch") is None:
            raise ValueError(
                f"{path} is a pickle, which only torch can read safely: install it (pip install torch), or save the model as "
                "model.safetensors."
            )
        check_torch_version(path)
        file_of = None if path.suffix != ".json" else files_of_index(path)
        self._tensors, file_with = {}, {}
        for file in [path] if file_of is None else sorted(set(file_of.values())):
            tensors = _tensors(file)
            twice = sorted(self._tensors.keys() & tensors.keys())
            if twice:
                raise ValueError(f"{printable(twice[0])} is in two of the files listed in {path}.")
            self._tensors |= tensors
            file_with |= dict.fromkeys(tensors, file)
        if file_of is not None:
            check_index(path, file_of, file_with)

    @property
    def names(self):
        """The names of all arrays, sorted."""
        return sorted(self._tensors)

    def shape(self, name):
        """The shape of an array."""
        return tuple(self._tensors[name].shape)

    def dtype(self, name):
        """The dtype of an array, in NumPy's spelling."""
        return str(self._tensors[name].dtype).removeprefix("torch.")

    def read(self, name):
        """A copy of an array, as from `read_array`; bfloat16 becomes float32, since torch cannot convert it to NumPy."""
        tensor = self._tensors[name].detach()  # parameters cannot be converted to arrays
        return (tensor.float() if self.dtype(name) == "bfloat16" else tensor.clone()).numpy()


def _tensors(path):
    """The tensors of a file by name."""
    import torch

    check_regular(path)
    if not path.exists():
        raise ValueError(f"expected a PyTorch file at {path}; it does not exist.")
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"  # the format since torch 1.6, the only one that can be memory-mapped
    (check_zip if is_zip else check_old_format)(path)
    try:
        values = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except DAMAGED as error:
        reason = [*str(error).splitlines(), type(error).__name__][0]
        raise ValueError(f"{path} is not a PyTorch state dictionary, or is damaged: {printable(reason)}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must be a dictionary of tensors; got {type(values).__name__}.")
    tensors = {str(name): value for name, value in values.items() if isinstance(value, torch.Tensor)}
    check_tensors(tensors, path)
    return tensors
