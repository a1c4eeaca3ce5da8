"""What an HDF5 file may contain: its own groups and arrays, of a size that fits the file.

The format allows more: links to other files (also to pipes, which would block), arrays whose numbers are stored elsewhere, arrays
of terabytes of which nothing is stored, chunks that unpack to a thousand times their size, and filters that are loaded from
libraries. A file of weights needs none of this.
"""

import math

import h5py

from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable

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
