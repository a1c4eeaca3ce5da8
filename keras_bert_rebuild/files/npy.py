"""Arrays in `.npy` files, mapped into memory. The header is compared with what `numpy.save` writes, and never evaluated."""

import math
import os
import re

import numpy as np

from keras_bert_rebuild.files.printable import printable

_BEGIN = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '([^']{1,20})', 'fortran_order': (True|False), 'shape': \(([\d, ]{0,100})\), \} *\n")


def mapped_array(file, dtype, shape):
    """The memory-mapped array in a file.

    Args:
        file: the file, open for reading bytes, at its beginning.
        dtype: the dtype that it must have.
        shape: the shape that it must have, with None for sizes that may be any.

    Raises:
        ValueError: the file is damaged, or has another dtype, shape or number of bytes.
    """
    begin = file.read(len(_BEGIN) + 2)
    header = _HEADER.fullmatch(file.read(int.from_bytes(begin[-2:], "little"))) if begin[:-2] == _BEGIN else None
    if header is None:
        raise ValueError(f"expected an array in NumPy's format; {printable(file.name)} is damaged or something else.")
    found, sizes = header[1].decode("latin-1"), tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    fits = found == np.lib.format.dtype_to_descr(np.dtype(dtype)) and len(sizes) == len(shape)
    if not fits or any(size not in (None, given) for size, given in zip(shape, sizes, strict=True)):
        raise ValueError(
            f"expected an array of dtype {dtype} and shape {shape}; {printable(file.name)} has {printable(found)} and {sizes}."
        )
    content = os.fstat(file.fileno()).st_size - file.tell()
    if content != math.prod(sizes) * np.dtype(dtype).itemsize:
        raise ValueError(f"expected {sizes} numbers of dtype {dtype}; {printable(file.name)} has {content:,} bytes of them.")
    order = "F" if header[2] == b"True" else "C"
    # A plain array over the map, since np.memmap slows down every access.
    return np.asarray(np.memmap(file, dtype, "r", file.tell(), sizes, order))
