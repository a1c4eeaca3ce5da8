"""A safetensors file, written one array at a time."""

import hashlib
import json

import numpy as np

from keras_bert_rebuild.checkpoints.safetensors_files import DTYPES

_WORDS = {name: word for word, name in DTYPES.items()}


def write_arrays(file, source):
    """Write all arrays of a source, with one array in memory at a time.

    The writer of the safetensors library needs all of them at once.

    Args:
        file: a binary file that is open for writing.
        source: an object with `names`, `shape(name)`, `dtype(name)` and `read(name)`.

    Returns:
        The sha256 of the file.

    Raises:
        ValueError: an array has an unsupported type.
        OSError: the file cannot be written.

    Reference: the format as https://github.com/huggingface/safetensors describes it.
    """
    header, offset = {}, 0
    for name in source.names:
        dtype, shape = source.dtype(name), tuple(source.shape(name))
        if dtype not in _WORDS:
            raise ValueError(f"expected an array of {', '.join(_WORDS)} to write; {name} has {dtype}.")
        size = int(np.prod(shape, dtype="int64")) * np.dtype(dtype).itemsize
        header[name] = {"dtype": _WORDS[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    digest = hashlib.sha256()

    def write(content):
        file.write(content)
        digest.update(content)

    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write(len(text).to_bytes(8, "little") + text)
    for name in source.names:
        write(np.ascontiguousarray(source.read(name)).reshape(-1).view("uint8").data)
    return digest.hexdigest()
