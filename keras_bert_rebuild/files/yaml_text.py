"""Untrusted YAML: plain values, bounded, without anchors, and with errors of one sentence."""

import re

import yaml

from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable

# The loader in C is ten times as fast; both load only plain values.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Lone surrogates, as in names of files that are not UTF-8, which the loader in C refuses. Settings are below the limit.
HALF = re.compile(r"\\u[dD][89a-fA-F]")
SLOWLY_CHARACTERS = 1 << 16


def parse_yaml(text, where):
    """The value of a YAML text: numbers, strings, lists and dictionaries.

    Args:
        text: a string.
        where: the file, for errors.

    Raises:
        ValueError: it is not YAML, is nested too deeply, or has an anchor or an alias: a kilobyte of these is a billion values.
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
    """Refuse an anchor or an alias, and values that are nested too deeply, before anything is built from them."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.YAMLError(f"anchors and aliases are not read, and line {event.start_mark.line + 1} has {event.anchor!r}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            check_limit("yaml_depth", depth, f"{printable(where)}, from the outermost value to the innermost,")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
