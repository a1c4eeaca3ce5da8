"""JSON from users: bounded, with one-sentence errors that name the file."""

import json
from pathlib import Path

from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.regular import read_text


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
