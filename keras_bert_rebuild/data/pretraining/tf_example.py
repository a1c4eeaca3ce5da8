"""The wire format of `tf.train.Example`, without TensorFlow: named lists of integers, floats or bytes.

    Example { features: 1 }   Features { feature: 1, a map of key: 1, value: 2 }
    Feature { bytes_list: 1, float_list: 2, int64_list: 3 }   each list { value: 1, repeated }

Reference: `tensorflow/core/example/example.proto` and `feature.proto`; https://protobuf.dev/programming-guides/encoding/.
"""

import numpy as np

from keras_bert_rebuild.files.reading import read_varint, varint

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def encode_example(features):
    """An example as bytes.

    Args:
        features: dictionary from name to an array of integers or floats.

    Returns:
        `bytes`; features are sorted by name.
    """
    entries = b""
    for name in sorted(features):
        values = np.asarray(features[name])
        if values.dtype.kind == "f":
            feature = _field(_FLOAT_LIST, _field(1, values.astype("<f4").tobytes()))
        else:
            feature = _field(_INT64_LIST, _field(1, b"".join(varint(int(value) & (2**64 - 1)) for value in values.ravel())))
        entries += _field(1, _field(1, name.encode()) + _field(2, feature))
    return _field(1, entries)


def decode_example(data):
    """The features of an example.

    Args:
        data: `bytes`.

    Returns:
        Dictionary from name to an int64 or float32 array, or a list of `bytes`.

    Raises:
        ValueError: the bytes are not an example.
    """
    features = {}
    for _, body in _bytes_fields(data, {1}):
        for _, entry in _bytes_fields(body, {1}):
            parts = dict(_bytes_fields(entry, {1, 2}))
            try:
                name = bytes(parts.get(1, b"")).decode()
            except UnicodeDecodeError:
                raise ValueError("a tf.train.Example must have names in UTF-8; got other bytes.") from None
            features[name] = _feature(parts.get(2, b""))
    return features


def _feature(data):
    values = np.zeros(0, "int64")
    for kind, body in _bytes_fields(data, {_BYTES_LIST, _FLOAT_LIST, _INT64_LIST}):
        if kind == _BYTES_LIST:
            values = [bytes(item) for _, item in _bytes_fields(body, {1})]
        elif kind == _FLOAT_LIST:
            joined = b"".join(bytes(item) for _, item in _bytes_fields(body, {1}))
            if len(joined) % 4:
                raise ValueError(f"a float list of a tf.train.Example must have 4 bytes per number; got {len(joined)} bytes.")
            values = np.frombuffer(joined, "<f4").astype("float32")
        else:
            items = [item for _, item in _fields(body, {1})]
            numbers = [number for item in items for number in (_varints(item) if isinstance(item, memoryview) else [item])]
            values = np.array(numbers, "uint64").astype("int64")
    return values


def _fields(data, wanted):
    """The wanted fields of a message, `(number, value)`: bytes as a `memoryview`, a varint as an int; others are skipped."""
    data, at = memoryview(data), 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _read_varint(data, at)
        else:
            if wire == _BYTES:
                size, at = _read_varint(data, at)
            elif wire in (_FIXED32, _FIXED64):
                size = 4 if wire == _FIXED32 else 8
            else:
                raise ValueError(f"a tf.train.Example must have fields of wire type 0, 1, 2 or 5; got {wire}.")
            if at + size > len(data):
                raise ValueError(f"a tf.train.Example must be complete; a field of {size} bytes has only {len(data) - at}.")
            value, at = data[at : at + size], at + size
        if number in wanted:
            yield number, value


def _bytes_fields(data, wanted):
    """The wanted fields of a message, all of which must be bytes."""
    for number, value in _fields(data, wanted):
        if not isinstance(value, memoryview):
            raise ValueError(f"a tf.train.Example must have bytes in field {number}; got the integer {value}.")
        yield number, value


def _varints(data):
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value


def _read_varint(data, at):
    try:
        value, at = read_varint(data, at)
    except IndexError:
        raise ValueError("a tf.train.Example must have integers of at most 10 bytes; one is longer or truncated.") from None
    return value & (2**64 - 1), at


def _field(number, data):
    return varint(number << 3 | _BYTES) + varint(len(data)) + data
