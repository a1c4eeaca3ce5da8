"""`pytorch_model.bin`, one file or several with an index, read by torch without running a pickle."""

import importlib.util
import pickle
import struct
from pathlib import Path

from keras_bert_rebuild.checkpoints.safetensors_files import check_index, files_of_index
from keras_bert_rebuild.checkpoints.torch_limits import check_old_format, check_tensors, check_torch_version, check_zip
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.regular import check_regular

INDEX = "pytorch_model.bin.index.json"

# The errors of unpickling damaged bytes.
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
        path: the file, or the `.index.json` of several.

    Raises:
        ValueError: torch is not installed; a file is missing, damaged or holds more than tensors; or a name is in two of them.
    """

    def __init__(self, path):
        path = Path(path)
        if importlib.util.find_spec("torch") is None:
            raise ValueError(
                f"{path} is a file of pickles that only torch reads safely: install it (pip install torch), or save the model as "
                "model.safetensors."
            )
        check_torch_version(path)
        file_of = None if path.suffix != ".json" else files_of_index(path)
        self._tensors, found = {}, {}
        for file in [path] if file_of is None else sorted(set(file_of.values())):
            tensors = _tensors(file)
            twice = sorted(self._tensors.keys() & tensors.keys())
            if twice:
                raise ValueError(f"{printable(twice[0])} is in two of the files that {path} names.")
            self._tensors |= tensors
            found |= dict.fromkeys(tensors, file)
        if file_of is not None:
            check_index(path, file_of, found)

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
        """An array in new memory, as from `read_array`; bfloat16, which torch cannot convert to NumPy, as float32."""
        tensor = self._tensors[name].detach()  # a parameter cannot be converted to an array
        return (tensor.float() if self.dtype(name) == "bfloat16" else tensor.clone()).numpy()


def _tensors(path):
    """The tensors of a file by name."""
    import torch

    check_regular(path)
    if not path.exists():
        raise ValueError(f"expected a PyTorch file at {path}; it does not exist.")
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"  # the format of torch since 1.6; only these can be memory-mapped
    (check_zip if is_zip else check_old_format)(path)
    try:
        values = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except DAMAGED as error:
        reason = [*str(error).splitlines(), type(error).__name__][0]
        raise ValueError(f"{path} is not a state dictionary of PyTorch or is damaged: {printable(reason)}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a dictionary of tensors; got {type(values).__name__}.")
    tensors = {str(name): value for name, value in values.items() if isinstance(value, torch.Tensor)}
    check_tensors(tensors, path)
    return tensors
