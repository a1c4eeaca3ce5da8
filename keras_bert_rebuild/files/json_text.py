"""The user's JSON: bounded, and with errors of one sentence that name the file."""

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
        values_limit: the limit in `files.limits` on its values.

    Raises:
        ValueError: it is not JSON, is nested too deeply, has too many values or a number of thousands of digits.
    """
    # Before it is parsed: each of these characters begins a value, or is part of a string.
    check_limit(values_limit, sum(map(text.count, ",:[{")) if len(text) > 1 << 16 else 0, printable(where))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # a JSONDecodeError is a ValueError, as is one of too many digits
        raise ValueError(f"{printable(where)} must be JSON in UTF-8: {printable(error)}.") from None
    check_depth(value, where)
    return value


def check_depth(value, where, name="json_depth"):
    """Refuse lists and dictionaries that are nested too deeply."""
    level, depth = [value] if isinstance(value, (list, dict)) else [], 0
    while level:
        depth += 1
        check_limit(name, depth, f"{printable(where)}, from the outermost value to the innermost,")
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
    """The dictionary in a JSON file; an empty one if the file does not exist.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file holds something else.
    """
    values = parsed_json(path) if Path(path).exists() else {}
    if not isinstance(values, dict):
        raise ValueError(f"{printable(path)} must hold a JSON object; got {type(values).__name__}.")
    return values
