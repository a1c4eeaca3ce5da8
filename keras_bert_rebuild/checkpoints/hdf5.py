"""HDF5 files of weights saved by Keras 2, read without it: keras_bert's .h5 files and Hugging Face's `tf_model.h5`.

A file is first checked to contain nothing but its own arrays, of a total size that fits the file. The format allows more: links to
other files (or to pipes, which would block), arrays stored elsewhere, arrays of terabytes without data, chunks that decompress to a
thousand times their size, and filters loaded from libraries. Weights need none of this.
"""

import math
import re
from pathlib import Path

import h5py
import numpy as np

from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular, parse_json

# Built-in filters, which Keras or a user may have used: deflate, shuffle, fletcher32.
FILTERS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32)


def check_hdf5(file, size, where):
    """Refuse a file that contains anything but its own arrays.

    Args:
        file: an open `h5py.File`.
        size: of the file, in bytes.
        where: its name, for error messages.

    Raises:
        ValueError: there is a link to another name or file, an array too large for the file, an unknown filter or too many objects.
    """
    maximum = max(limit("hdf5_floor_bytes"), limit("hdf5_ratio") * size)
    groups, seen, declared = [file], {_address(file)}, 0
    while groups:
        group = groups.pop()
        for name in group:
            item = member(group, name, where)
            if _address(item) in seen:
                continue
            seen.add(_address(item))
            check_limit("hdf5_objects", len(seen), str(where))
            if isinstance(item, h5py.Group):
                groups.append(item)
            else:
                declared += _declared_bytes(item, maximum, where)
            if declared > maximum:
                raise ValueError(f"{where} declares arrays of {declared:,} bytes; the limit for its {size:,} bytes is {maximum:,}.")


def member(group, path, where):
    """An array or a group by its path, following links within the file only.

    Raises:
        ValueError: a link to another name or file.
        KeyError: it does not exist.
    """
    for name in path.strip("/").split("/"):
        link = group.get(name, getlink=True) if isinstance(group, h5py.Group) else None
        if link is None:
            raise KeyError(f"{printable(path)} does not exist")
        if not isinstance(link, h5py.HardLink):
            raise _elsewhere(where, path)
        group = group[name]
    return group


def _declared_bytes(dataset, maximum, where):
    """The maximum number of bytes that reading a dataset takes."""
    if not isinstance(dataset, h5py.Dataset):
        return 0  # a named datatype
    if dataset.external or dataset.is_virtual:
        raise _elsewhere(where, dataset.name)
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    if not set(filters) <= set(FILTERS):
        raise ValueError(f"{where} compresses {dataset.name!r} with an unsupported filter, one of the numbers {filters}.")
    chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    if chunk > maximum:
        raise ValueError(f"{where} has {dataset.name!r} in chunks of {chunk:,} bytes; the limit for its size is {maximum:,}.")
    return math.prod(dataset.shape or ()) * dataset.dtype.itemsize


def _elsewhere(where, path):
    return ValueError(f"{where} has {printable(path)} as a link to another file or name, which is refused.")


def _address(item):
    info = h5py.h5o.get_info(item.id)
    return info.fileno, info.addr


# The last component of a weight's name in Keras, and in PyTorch.
HUGGINGFACE_WORDS = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight"}

# Prefixes of the names of keras_bert's layers that have weights.
KERAS_BERT_LAYER = r"(Embedding|Encoder-\d+|MLM|NSP)-|NSP$"

# What h5py raises for damaged bytes.
DAMAGED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    UnicodeDecodeError,
)


class KerasH5:
    """The arrays of a legacy Keras file by name.

    Args:
        path: the file, with a whole model or only its weights.
        rename: takes a layer name and a weight name as in the file; returns our name and whether the array must be transposed.

    Raises:
        ValueError: the file is not of this format or damaged, has two values for a name, or links to another file.
    """

    def __init__(self, path, rename):
        self.path = Path(path)
        self._datasets = {}
        with _Opened(self.path) as file:
            group = _weights_of(file)
            for layer in _strings(group, "layer_names"):
                weights = member(group, layer, self.path)
                for weight in _strings(weights, "weight_names"):
                    name, transposed = rename(layer, weight)
                    dataset = member(weights, weight, self.path)
                    if name in self._datasets:  # a tied table is saved with every layer that uses it
                        if not np.array_equal(file[self._datasets[name][0]], dataset):
                            raise ValueError(f"{self.path} has {name} twice, with different values.")
                        continue
                    shape = dataset.shape[::-1] if transposed else dataset.shape
                    self._datasets[name] = (dataset.name, shape, dataset.dtype.name, transposed)
            config = file.attrs.get("model_config")
            self.model_config = None if config is None else _parsed(config, self.path)
            """The config of the architecture, None if the file has only weights."""

    @property
    def names(self):
        """The names of all arrays, sorted."""
        return sorted(self._datasets)

    def shape(self, name):
        """The shape of an array."""
        return self._datasets[name][1]

    def dtype(self, name):
        """The dtype of an array, in NumPy's spelling."""
        return self._datasets[name][2]

    def read(self, name):
        """An array, read from disk."""
        dataset, _, _, transposed = self._datasets[name]
        with _Opened(self.path, checked=True) as file:
            array = np.asarray(member(file, dataset, self.path))
        return array.T if transposed else array


class _Opened:
    """An open HDF5 file, whose errors become one sentence with the name of the file."""

    def __init__(self, path, checked=False):
        self.path, self.checked = path, checked

    def __enter__(self):
        size = check_regular(self.path)
        try:
            self.file = h5py.File(self.path, "r")
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{self.path} is not an HDF5 file or is damaged: {printable(error)}.") from None
        try:
            if not self.checked:
                check_hdf5(self.file, size, self.path)
        except DAMAGED as error:
            self.file.close()
            raise ValueError(f"{self.path} is damaged: {printable(error)}.") from None
        except ValueError:
            self.file.close()
            raise
        return self.file

    def __exit__(self, kind, error, trace):
        self.file.close()
        if kind is not None and issubclass(kind, DAMAGED):
            raise ValueError(f"{self.path} is damaged: {printable(error)}.") from None


def keras_bert_name(layer, weight):
    """`Encoder-1-FeedForward/Encoder-1-FeedForward_W1:0` as `Encoder-1-FeedForward/W1`.

    If BERT is a layer of the model, that layer is named `model_1` or similar, and its weights keep the names of their own layers.
    """
    *path, last = weight.split(":")[0].split("/")
    if not re.match(KERAS_BERT_LAYER, layer):
        inner = re.sub(r"_\d+$", "", path[-1]) if path else ""  # numbered if the process had created layers of that name before
        if re.match(KERAS_BERT_LAYER, inner):
            layer = inner
        elif path[:1] != [layer]:  # a layer defined by the user, possibly in several models
            return "/".join([layer, *path, last]), False
    return f"{layer}/{last.removeprefix(f'{layer}_')}", False


def huggingface_name(layer, weight):
    """`bert/encoder/layer_._0/output/dense/kernel:0` as `bert.encoder.layer.0.output.dense.weight`; kernels are transposed."""
    del layer
    parts = weight.split(":")[0].split("/")
    if parts[0].startswith("tf_"):  # older files start with the name of the model
        parts = parts[1:]
    *path, last = (re.sub(r"^.*___", "", part).replace("_._", ".") for part in parts)
    return ".".join([*path, HUGGINGFACE_WORDS.get(last, last)]), last == "kernel"


def _strings(group, attribute):
    """An attribute with a list of names, which Keras splits over several attributes if it is too long for one."""
    chunks = [group.attrs[attribute]] if attribute in group.attrs else []
    while not chunks or f"{attribute}{len(chunks)}" in group.attrs:
        chunks.append(group.attrs[f"{attribute}{len(chunks)}"])
    names = [name.decode() if isinstance(name, bytes) else str(name) for chunk in chunks for name in chunk]
    check_limit("arrays", len(names), f"the list {attribute}")
    return names


def _weights_of(file):
    """The group of the layers: `model_weights` in the file of a whole model, else the file itself."""
    return file["model_weights"] if isinstance(file.get("model_weights"), h5py.Group) else file


def _parsed(config, path):
    try:
        return parse_json(config.decode("utf-8") if isinstance(config, bytes) else str(config), "its model_config")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def names_in_keras_2_file(path):
    """The names of all weights in a file with the layout of Keras 2; None for another layout, such as that of .weights.h5."""
    with _Opened(Path(path)) as file:
        group = _weights_of(file)
        if "layer_names" not in group.attrs and "layer_names0" not in group.attrs:
            return None
        return [name for layer in _strings(group, "layer_names") for name in _strings(member(group, layer, path), "weight_names")]
