"""Users' files: only regular ones are opened, only what the limits allow is decompressed or parsed, and values have expected types.

Formats that are read here are texts, JSON and varints, the integers of protocol buffers and LevelDB.
"""

import json
import numbers
import os
import stat
import types
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from keras_bert_rebuild.files.limits import check_limit, is_number
from keras_bert_rebuild.files.printable import printable

# How a file of git's extension for large files begins if its content was not downloaded, and its largest size.
LFS_POINTER, LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024


def check_regular(path):
    """Refuse anything but a file or a link to one; a missing path is left to the code that opens it.

    Args:
        path: the file.

    Returns:
        Its size in bytes, 0 if it does not exist.

    Raises:
        ValueError: a named pipe, a socket, a device or a folder, or a git-lfs pointer instead of the file.
    """
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return 0
    except ValueError as error:  # a NUL character
        raise ValueError(f"{printable(path)} is not a file name: {error}.") from None
    if not stat.S_ISREG(state.st_mode):
        kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
        kind = next((word for is_kind, word in kinds if is_kind(state.st_mode)), "a device")
        raise ValueError(f"expected a file at {printable(path)}; it is {kind}.")
    if len(LFS_POINTER) < state.st_size < LFS_BYTES:
        with open(path, "rb") as file:
            if file.read(len(LFS_POINTER)) == LFS_POINTER:
                raise ValueError(f"expected a file at {printable(path)}; it is a git-lfs pointer to it: run git lfs pull there.")
    return state.st_size


def read_bytes(path, limit_name):
    """The bytes of a file.

    Args:
        path: the file.
        limit_name: the limit on its size, a name in `files.limits`.

    Raises:
        ValueError: it is not a file, or too large.
        OSError: reading fails.
    """
    check_limit(limit_name, check_regular(path), printable(path))
    return Path(path).read_bytes()


def read_text(path, limit_name, what="text", encoding="utf-8"):
    """The text of a file.

    Args:
        path: the file.
        limit_name: the limit on its size, a name in `files.limits`.
        what: the format, for the error.
        encoding: "utf-8", or "utf-8-sig" to allow a byte order mark.

    Raises:
        ValueError: it is not a file, too large, or in another encoding.
        OSError: reading fails.
    """
    content = read_bytes(path, limit_name)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        seems = "; it begins like UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise ValueError(f"{printable(path)} must be {what} in UTF-8; byte {error.start} is not{seems}.") from None


def parse_json(text, where, values_limit="json_values"):
    """The value of a JSON text.

    Args:
        text: a string.
        where: the file, for errors.
        values_limit: the limit on the number of values, a name in `files.limits`.

    Raises:
        ValueError: it is not JSON, is nested too deeply, has too many values or an integer of thousands of digits.
    """
    if not text or text.isspace():
        raise ValueError(f"{printable(where)} must be JSON in UTF-8; it is empty.")
    # Checked before parsing: each of these characters begins a value or is part of a string.
    check_limit(values_limit, sum(map(text.count, ",:[{")) if len(text) > 1 << 16 else 0, printable(where))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # JSONDecodeError and too many digits are ValueErrors
        raise ValueError(f"{printable(where)} must be JSON in UTF-8: {printable(error)}.") from None
    check_depth(value, where)
    return value


def check_depth(value, where, name="json_depth"):
    """Refuse lists and dictionaries nested too deeply."""
    level, depth = [value] if isinstance(value, (list, dict)) else [], 0
    while level:
        depth += 1
        check_limit(name, depth, f"the nesting of {printable(where)}")
        insides = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for inside in insides for inner in inside if isinstance(inner, (list, dict))]


def parsed_json(path):
    """The content of a JSON file.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file is not JSON in UTF-8, or exceeds the limits of `files.limits`.
    """
    return parse_json(read_text(path, "json_bytes", "JSON"), path)


def json_object(path):
    """The dictionary in a JSON file; empty if the file does not exist.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file has something else.
    """
    values = parsed_json(path) if Path(path).exists() else {}
    if not isinstance(values, dict):
        raise ValueError(f"{printable(path)} must be a JSON object; got {type(values).__name__}.")
    return values


def json_bytes(values):
    """Plain values as the content of a JSON file."""
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def varint(number):
    """The bytes of an integer of at least 0: seven bits per byte, lowest first.

    Reference: https://protobuf.dev/programming-guides/encoding/.
    """
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(content, at):
    """The integer of a `varint`, and the offset of the byte after it.

    Raises:
        IndexError: the content ends within the integer, or the integer is longer than 64 bits.
    """
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError("a number is longer than 64 bits")


# Type to a word for one value and for several. A number is finite; a whole number has at most 63 bits, as arrays hold.
WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "true or false"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    dict: ("an object", "objects"),
    list: ("a list", "lists"),
}


def value_of(values: Mapping[str, Any], key: str, expected: Any, where: Any, default: Any = None) -> Any:
    """The value under a key of an object that was read from a file.

    Args:
        values: the object.
        key: the key.
        expected: a type as in annotations: `int`, `float`, `bool`, `str`, `dict`, `list[str]`, `Mapping[str, str]`, `Literal["a"]`
            or a union of such types.
        where: the file, for errors.
        default: the result for a missing key or null.

    Raises:
        ValueError: the value is of another type.

    Example:

    >>> value_of({"width": "many"}, "width", int, "config.json")
    Traceback (most recent call last):
        ...
    ValueError: config.json must have a whole number as width; got 'many'.
    """
    value = values.get(key)
    if value is None:
        return default
    check_values({key: value}, {key: expected}, where)
    return value


def check_values(values: Mapping[str, Any], expected: Mapping[str, Any], where: Any, required: Collection[str] = ()) -> None:
    """Refuse an object of which a value is of another type than expected, or missing.

    Args:
        values: the object.
        expected: key to type, see `value_of`; other keys are not checked.
        where: the file, for errors.
        required: keys that must be there.

    Raises:
        ValueError: a value is of another type, or missing.
    """
    missing = next((key for key in required if key not in values), None)
    if missing is not None:
        raise ValueError(f"{printable(where)} must have {in_words(expected[missing])} as {missing}; it has none.")
    for key, value in values.items():
        if key in expected and not is_of_type(value, expected[key]):
            raise ValueError(f"{printable(where)} must have {in_words(expected[key])} as {key}; got {value!r:.80}.")


def is_of_type(value: Any, expected: Any) -> bool:
    """Whether a value read from a file is of a type, see `value_of`; True for types that no file has."""
    kind, parts = get_origin(expected) or expected, get_args(expected)
    if kind is Any:
        return True
    if kind in (Union, types.UnionType):
        return any(is_of_type(value, part) for part in parts)
    if kind is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if kind in (int, float):
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool) and abs(int(value)) < 1 << 63
        return whole or (kind is float and is_number(value))
    if not isinstance(kind, type):
        return kind is not None or value is None
    if kind in (list, tuple, Sequence, Collection):
        listed = isinstance(value, (list, tuple))
        if kind is tuple and parts and parts[-1] is not Ellipsis:
            return listed and len(value) == len(parts) and all(map(is_of_type, value, parts))
        return listed and all(is_of_type(part, parts[0]) for part in value if parts)
    if kind in (dict, Mapping):
        inner = value.items() if isinstance(value, Mapping) and parts else ()
        return isinstance(value, Mapping) and all(is_of_type(*pair) for item in inner for pair in zip(item, parts, strict=True))
    return isinstance(value, kind)


def in_words(expected: Any, several: bool = False) -> str:
    """A type in the words of an error, such as "a list of texts"."""
    kind, parts = get_origin(expected) or expected, get_args(expected)
    if kind in (Union, types.UnionType):
        return " or ".join(in_words(part, several) for part in parts if part is not type(None))
    if kind is Literal:
        return " or ".join(map(str, parts))
    if kind in (list, tuple, Sequence, Collection) and parts:
        count = len(parts) if kind is tuple and parts[-1] is not Ellipsis else None
        of = in_words(parts[0], several=True) if count is None else f"{count} values"
        return f"lists of {of}" if several else f"a list of {of}"
    if kind in (dict, Mapping) and parts:
        return f"{in_words(parts[1], several=True)} by name"
    return WORDS.get(kind, (getattr(kind, "__name__", str(kind)),) * 2)[several]
