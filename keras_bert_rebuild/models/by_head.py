"""Values for the outputs of a model, in the forms that Keras takes: a dictionary, a list, or one value for all."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one


def by_head(heads: Sequence[str], values: Any, strict: bool = True) -> dict[str, Any]:
    """A value for every output, from a dictionary, a list, or one value for all outputs; None for an output without one.

    Args:
        heads: the names of the outputs.
        values: the values.
        strict: whether values must fit; Keras reports those that do not, later.

    Raises:
        ValueError: with `strict`, a dictionary has none of the names, or a list another length.
    """
    if isinstance(values, dict):
        if strict and values and not set(heads) & set(values):
            raise ValueError(f"expected values by the names of the outputs, {', '.join(heads)}; got {', '.join(map(str, values))}.")
        return {head: values.get(head) for head in heads}
    values = values if isinstance(values, (list, tuple)) else [values] * len(heads)
    if strict and len(values) != len(heads):
        raise ValueError(f"expected one value for each of the outputs {', '.join(heads)}; got {len(values)}.")
    return dict(itertools.islice(itertools.zip_longest(heads, values), len(heads)))


def in_order(heads: Sequence[str], values: Mapping[str, Any]) -> Any:
    """The values in the order of the outputs; for a single output the value itself, not a list."""
    return bare_if_one([values[head] for head in heads])
