"""JSON files; errors name the file."""

from pathlib import Path

from keras_bert_rebuild.files.json_text import parse_json
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.regular import read_text


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
