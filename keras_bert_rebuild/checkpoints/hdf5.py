"""HDF5 files: their own groups and arrays, of a size that fits the file, and the weights that Keras 2 saved in them.

The format allows more: links to other files (also to pipes, which would block), arrays whose numbers are stored elsewhere, arrays
of terabytes of which nothing is stored, chunks that unpack to a thousand times their size, and filters that are loaded from
libraries. A file of weights needs none of this.

Weights are read without Keras 2: keras_bert's own .h5 files, and Hugging Face's `tf_model.h5`.
"""

import math
import re
from pathlib import Path

import h5py
import numpy as np

from keras_bert_rebuild.files.json_text import parse_json
from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.regular import check_regular

# deflate, shuffle, fletcher32: built-in filters that Keras or a user may have used.
FILTERS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32)


def check_hdf5(file, size, where):
    """Refuse a file that contains more than its own arrays.

    Args:
        file: an open `h5py.File`.
        size: of the file, in bytes.
        where: its name, for errors.

    Raises:
        ValueError: a link to another name or file, an array that is too large for the file, an unknown filter, too many objects.
    """
    maximum = max(limit("hdf5_floor_bytes"), limit("hdf5_ratio") * size)
    groups, seen, declared = [file], {_address(file)}, 0
    while groups:
        group = groups.pop()
        for name in group:
            found = member(group, name, where)
            if _address(found) in seen:
                continue
            seen.add(_address(found))
            check_limit("hdf5_objects", len(seen), str(where))
            if isinstance(found, h5py.Group):
                groups.append(found)
            else:
                declared += _declared_bytes(found, maximum, where)
            if declared > maximum:
                raise ValueError(f"{where} declares arrays of {declared:,} bytes; a file of {size:,} bytes may have {maximum:,}.")


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
    """The maximum bytes that reading an array takes."""
    if not isinstance(dataset, h5py.Dataset):
        return 0  # a type with a name
    if dataset.external or dataset.is_virtual:
        raise _elsewhere(where, dataset.name)
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    if not set(filters) <= set(FILTERS):
        raise ValueError(f"{where} has {dataset.name!r} compressed by an unknown filter, one of the numbers {filters}.")
    chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    if chunk > maximum:
        raise ValueError(f"{where} has {dataset.name!r} in chunks of {chunk:,} bytes; a file of its size may have {maximum:,}.")
    return math.prod(dataset.shape or ()) * dataset.dtype.itemsize


def _elsewhere(where, path):
    return ValueError(f"{where} has {printable(path)} in another file or under another name, which is not read.")


def _address(found):
    info = h5py.h5o.get_info(found.id)
    return info.fileno, info.addr


# The last part of a name in Keras, and in PyTorch.
HUGGINGFACE_WORDS = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight"}

# How the names of keras_bert's layers with weights begin.
KERAS_BERT_LAYER = r"(Embedding|Encoder-\d+|MLM|NSP)-|NSP$"

# The errors of h5py for damaged bytes.
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
        path: the file: a whole model or its weights.
        rename: from the layer and the name of a weight in it, both as in the file, to its name here and whether it is transposed.

    Raises:
        ValueError: the file is not such a file or is damaged, has two values for a name, or links to another file.
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
            """The architecture, if the file holds a whole model."""

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
    """An open HDF5 file; its errors become one sentence with its name."""

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

    If BERT is one layer of the model, that layer is called `model_1` or the like, and the weights have the names of their own
    layers.
    """
    *path, last = weight.split(":")[0].split("/")
    if not re.match(KERAS_BERT_LAYER, layer):
        inner = re.sub(r"_\d+$", "", path[-1]) if path else ""  # the layers of a second model in one process got numbers
        if re.match(KERAS_BERT_LAYER, inner):
            layer = inner
        elif path[:1] != [layer]:  # a layer of the user, which several models may have
            return "/".join([layer, *path, last]), False
    return f"{layer}/{last.removeprefix(f'{layer}_')}", False


def huggingface_name(layer, weight):
    """`bert/encoder/layer_._0/output/dense/kernel:0` as `bert.encoder.layer.0.output.dense.weight`; kernels are transposed."""
    del layer
    parts = weight.split(":")[0].split("/")
    if parts[0].startswith("tf_"):  # the name of the model, in older files
        parts = parts[1:]
    *path, last = (re.sub(r"^.*___", "", part).replace("_._", ".") for part in parts)
    return ".".join([*path, HUGGINGFACE_WORDS.get(last, last)]), last == "kernel"


def _strings(group, attribute):
    """An attribute of names, which Keras splits into several if it is too long for one."""
    chunks = [group.attrs[attribute]] if attribute in group.attrs else []
    while not chunks or f"{attribute}{len(chunks)}" in group.attrs:
        chunks.append(group.attrs[f"{attribute}{len(chunks)}"])
    names = [name.decode() if isinstance(name, bytes) else str(name) for chunk in chunks for name in chunk]
    check_limit("arrays", len(names), f"the list {attribute}")
    return names


def _weights_of(file):
    """The group with the layers: in the file of a whole model it is next to the architecture."""
    return file["model_weights"] if isinstance(file.get("model_weights"), h5py.Group) else file


def _parsed(config, path):
    try:
        return parse_json(config.decode("utf-8") if isinstance(config, bytes) else str(config), "its model_config")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def names_in_keras_2_file(path):
    """The names of all weights in a file in the layout of Keras 2, or None for another layout, that of .weights.h5."""
    with _Opened(Path(path)) as file:
        group = _weights_of(file)
        if "layer_names" not in group.attrs and "layer_names0" not in group.attrs:
            return None
        return [name for layer in _strings(group, "layer_names") for name in _strings(member(group, layer, path), "weight_names")]
