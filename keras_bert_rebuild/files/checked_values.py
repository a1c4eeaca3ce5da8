"""Values from files, checked against types: the error is one sentence with the file, the key, the expected type and what came."""

import numbers
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.files.printable import printable

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
