"""Arrays as compact text for a page (quantised, compressed, base64), and how many of them fit into 10 MB."""

import base64
import zlib

import numpy as np

from keras_bert_rebuild.explain.record import spread

# The largest code of values in [0, 1] whose square roots are stored.
ROOTS = {"root8": 255, "root5": 31}

# Precisions of arrays: name, stored dtype, and maximum error of a value v.
PRECISIONS = {
    "uint16": ("uint16", "1/131070"),
    "root8": ("uint8", "√v/255 + 1/260100"),
    "root5": ("uint8", "√v/31 + 1/3844"),
    "float16": ("float16", "|v|/2048 + 1e-7"),
    "float32": ("float32", "0"),
    "int8": ("int8", "the largest value of its row/254"),
}

# Maximum bytes of all layer and head arrays, uncompressed: base64 turns 7.2 MB into 10 MB, and they may not compress at all.
BYTES = 7_100_000

# Maximum bytes of a page, and of everything in it except arrays.
PAGE_BYTES, REST = 10_000_000, 500_000


def pack(array, precision):
    """An array as a dictionary for JSON.

    Values in [0, 1] are "uint16", v ≈ code / 65535, or "root8", v ≈ (code / 255)², which is more precise for small values; "root5"
    is the same with 32 levels, which compress to at most five bits. The bytes of the numbers are separated, all low bytes first,
    since high bytes are similar and compress well. "int8" has a scale per row of the last axis.

    Args:
        array: a float array.
        precision: a name of `PRECISIONS`.

    Returns:
        `shape`, `precision`, `data` (the base64 of the deflated bytes), and for "int8" the packed `scales`.

    Raises:
        ValueError: a value is not finite, or too large for float16.
    """
    array = np.asarray(array, "float32")
    if not np.isfinite(array).all():
        infinite = int((~np.isfinite(array)).sum())
        raise ValueError(f"arrays of a page must have finite values; {infinite} of {array.size} are not finite.")
    packed = {"shape": list(array.shape), "precision": precision}
    if precision == "uint16":
        codes = np.rint(array.clip(0, 1) * 65535).astype("<u2")
    elif precision in ROOTS:
        codes = np.rint(np.sqrt(array.clip(0, 1)) * ROOTS[precision]).astype("u1")
    elif precision == "int8":
        scales = np.abs(array).max(-1, initial=0, keepdims=True) / 127
        codes = np.rint(array / np.where(scales > 0, scales, 1)).astype("i1")
        packed["scales"] = pack(scales[..., 0], "float32")
    elif precision == "float16":
        if np.abs(array).max(initial=0) > np.finfo("float16").max:
            raise ValueError(f"arrays of float16 must be below 65504; got {np.abs(array).max():.6g}.")
        codes = array.astype("<f2")
    else:
        codes = array.astype("<f4")
    planes = np.frombuffer(codes.tobytes(), "u1").reshape(-1, codes.itemsize).T  # (values, bytes) → (bytes, values)
    packed["data"] = base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")
    return packed


def unpack(packed):
    """The array of a dictionary from `pack`, in float32, with the values that the page shows."""
    stored, _ = PRECISIONS[packed["precision"]]
    dtype = np.dtype(stored).newbyteorder("<")
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), "u1").reshape(dtype.itemsize, -1)
    codes = np.frombuffer(planes.T.tobytes(), dtype).reshape(packed["shape"]).astype("float32")
    if packed["precision"] == "uint16":
        return codes / 65535
    if packed["precision"] in ROOTS:
        return (codes / ROOTS[packed["precision"]]) ** 2
    if packed["precision"] == "int8":
        return codes * unpack(packed["scales"])[..., None]
    return codes


def map_bytes(length, width, bytes_each, terms=0):
    """Bytes of one head: its map, and, in float16, its queries, keys and added terms."""
    return length * length * (bytes_each + 2 * terms) + 2 * length * width * 2


def precision_that_fits(maps, length, width, terms=0):
    """The highest precision of `pack` at which this number of maps fits: "uint16" or "root8"."""
    return "uint16" if maps * map_bytes(length, width, 2, terms) <= BYTES else "root8"


def heads_that_fit(layer_count, head_count, length, width, layers=None, heads=None, terms=0, copies=1):
    """Layers and heads whose maps fit into a page, and whether their queries and keys fit, too.

    All layers and heads if possible, or if they fit without queries and keys; otherwise the same fraction of layers and of heads,
    with queries and keys, evenly spaced over the model, including the first and last if at least two fit.

    Args:
        layer_count, head_count: numbers of layers and heads of the model.
        length: tokens of the text.
        width: width of a head.
        layers, heads: indices to show regardless of size; None to choose.
        terms: number of terms added to query · key, such as 2 for disentangled attention.
        copies: number of models side by side.

    Returns:
        Two tuples of indices, and a bool.
    """
    layers, heads = (None if indices is None else tuple(indices) for indices in (layers, heads))
    count = copies * layer_count * head_count
    if layers is None and heads is None and count * map_bytes(length, 0, 1) <= BYTES:
        return tuple(range(layer_count)), tuple(range(head_count)), count * map_bytes(length, width, 1, terms) <= BYTES
    maps_that_fit = max(int(BYTES // (copies * map_bytes(length, width, 1, terms))), 1)
    share = min((maps_that_fit / (layer_count * head_count)) ** 0.5, 1)
    if layers is None:
        maximum = round(layer_count * share) if heads is None else maps_that_fit // max(len(heads), 1)
        layers = tuple(spread(layer_count, maximum))
    if heads is None:
        heads = tuple(spread(head_count, maps_that_fit // max(len(layers), 1)))
    return layers, heads, True


def too_large(size, steps, shape):
    """The error for maps of checkpoints that do not fit into a page, with advice on what to reduce.

    Args:
        size: size of the arrays, in characters.
        steps: number of checkpoints.
        shape: shape of the maps of each, `(layers, heads, length, length)`.
    """
    layers, heads, length, _ = shape
    return ValueError(
        f"a page may have 10 MB; the maps of {steps} checkpoints, {layers} layers, {heads} heads and {length} tokens need "
        f"{size / 1e6:.1f} MB: show fewer checkpoints (--checkpoints), --layers, --heads or tokens (--max-seq-length)."
    )
