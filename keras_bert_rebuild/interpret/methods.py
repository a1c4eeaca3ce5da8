"""The attribution methods by name."""

import difflib
from dataclasses import fields
from typing import Any

from keras_bert_rebuild.interpret.attention_methods import AttentionRollout
from keras_bert_rebuild.interpret.method import Method
from keras_bert_rebuild.interpret.path_methods import GradientTimesInput, IntegratedGradients
from keras_bert_rebuild.interpret.word_methods import LeaveOneOut, Shapley

METHODS: dict[str, Any] = {
    method.name: method for method in (IntegratedGradients, GradientTimesInput, AttentionRollout, LeaveOneOut, Shapley)
}


def method_of(method: str | Method, **options: Any) -> Method:
    """A method by its name, with its settings; a `Method` is returned unchanged.

    Args:
        method: a name in `METHODS`, with - or _ between its parts, or a `Method`.
        **options: the settings of the method.

    Raises:
        ValueError: the name or an option is unknown.
    """
    if isinstance(method, Method):
        if options:
            raise ValueError(f"settings of a Method object must be set in the object; got {', '.join(options)} in addition.")
        return method
    name = str(method).replace("-", "_")
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {near[0]}" if near else ""
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}{hint}.")
    known = [field.name for field in fields(METHODS[name])]
    unknown = [option for option in options if option not in known]
    if unknown:
        has = f"has the settings {', '.join(known)}" if known else "has no settings"
        raise ValueError(f"{name} {has}; got {', '.join(unknown)}.")
    return METHODS[name](**options)
