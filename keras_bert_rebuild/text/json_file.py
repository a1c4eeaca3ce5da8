"""JSON files, whose errors are a sentence with the name of the file."""

from pathlib import Path

from keras_bert_rebuild.files.json_text import parse_json
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.regular import read_text


def parsed_json(path):
    """What a JSON file holds.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file is not JSON in UTF-8, or goes beyond the limits of `files.limits`.
    """
    return parse_json(read_text(path, "json_bytes", "JSON"), path)


def json_object(path):
    """The dictionary in a JSON file, an empty one where there is no such file.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file holds something else.
    """
    values = parsed_json(path) if Path(path).exists() else {}
    if not isinstance(values, dict):
        raise ValueError(f"{printable(path)} must hold a JSON object; got {type(values).__name__}.")
    return values
