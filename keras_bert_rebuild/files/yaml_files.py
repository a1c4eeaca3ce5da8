"""YAML, which may be untrusted: plain values, bounded, without anchors, and with errors of one sentence."""

import re
from pathlib import Path

import yaml

from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import read_text


def read_yaml(path):
    """The mapping in a YAML file.

    Raises:
        ValueError: there is no such file, it is not YAML, or its top level is not a mapping.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"expected a YAML file of settings at {printable(path)}; it does not exist.")
    values = parse_yaml(read_text(path, "yaml_bytes", "YAML"), path)
    if values is not None and not isinstance(values, dict):
        raise ValueError(f"{path} must hold names and values; got {type(values).__name__}.")
    return values or {}


def write_yaml(path, values):
    """Write a mapping, atomically."""
    write_text(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True), claimed=True)


# The loader in C is ten times as fast; both load only plain values.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The loader in C refuses lone surrogates, which names of files that are not UTF-8 contain.
HALF = re.compile(r"\\u[dD][89a-fA-F]")
SLOWLY_CHARACTERS = 1 << 16


def parse_yaml(text, where):
    """The value of a YAML text: numbers, strings, lists and dictionaries.

    Args:
        text: a string.
        where: the file, for errors.

    Raises:
        ValueError: it is not YAML, is nested too deeply, or has an anchor or alias, which could expand to a billion values.
    """
    loader = yaml.SafeLoader if len(text) <= SLOWLY_CHARACTERS and HALF.search(text) else LOADER
    try:
        _check_events(text, loader, where)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    except (ValueError, OverflowError, RecursionError) as error:  # a number of thousands of digits, a thirteenth month
        raise ValueError(f"{printable(where)} must be YAML with plain values: {printable(error)}") from None


def _check_events(text, loader, where):
    """Refuse anchors, aliases and too deeply nested values before anything is built from them."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.YAMLError(f"anchors and aliases are not read, and line {event.start_mark.line + 1} has {event.anchor!r}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            check_limit("yaml_depth", depth, f"{printable(where)}, from the outermost value to the innermost,")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
