"""Arrays as compact text for a page: quantised, compressed, base64."""

import base64
import zlib

import numpy as np

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
