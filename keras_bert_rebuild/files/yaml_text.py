"""YAML of others: plain values, bounded, without anchors, and with errors of one sentence."""

import yaml

from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable

# The one in C is ten times as fast; both know plain values alone.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(text, where):
    """What a YAML text holds: numbers, strings, lists and dictionaries.

    Args:
        text: a string.
        where: the file, for errors.

    Raises:
        ValueError: it is no YAML, nests too deep, or has an anchor or an alias: a kilobyte of these is a billion values.
    """
    try:
        _check_events(text, where)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    try:
        return yaml.load(text, Loader=LOADER)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    except (ValueError, OverflowError, RecursionError) as error:  # a number of thousands of digits, a thirteenth month
        raise ValueError(f"{printable(where)} must be YAML with plain values: {printable(error)}") from None


def _check_events(text, where):
    """Refuse an anchor or an alias, and values that nest too deep, before anything is made of them."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.YAMLError(f"anchors and aliases are not read, and line {event.start_mark.line + 1} has {event.anchor!r}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            check_limit("yaml_depth", depth, f"{printable(where)}, from the outermost value to the innermost,")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
