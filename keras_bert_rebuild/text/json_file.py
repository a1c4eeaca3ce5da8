"""JSON files, whose errors are a sentence with the name of the file."""

import json


def parsed_json(path):
    """What a JSON file holds.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file is not JSON in UTF-8.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON in UTF-8: {error}.") from None


def json_object(path):
    """The dictionary in a JSON file, an empty one where there is no such file.

    Args:
        path: a `Path`.

    Raises:
        ValueError: the file holds something else.
    """
    values = parsed_json(path) if path.is_file() else {}
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object; got {type(values).__name__}.")
    return values
