"""Freezing by variable path: what learns and what stays as it is."""

import math
from collections import namedtuple
from collections.abc import Sequence

import keras

from keras_bert_rebuild.training.path_patterns import check_patterns, matches_any

# Numbers that stay as they are, and numbers that learn.
Frozen = namedtuple("Frozen", ["frozen", "trained"])


def freeze(model: keras.Model, patterns: Sequence[str]) -> Frozen:
    """Let the variables stay as they are in whose path a pattern is found; call it before `compile`.

    A model's file does not say which variables are frozen; it does of whole layers, which `from_pretrained(trainable=...)` freezes.

    Args:
        model: any Keras model.
        patterns: a list of regular expressions over variable paths, such as "^Embedding-" or "^Encoder-[1-4]-".

    Returns:
        A `Frozen`: how many numbers of the model stay and how many learn now.

    Raises:
        ValueError: a pattern that is no regular expression or is found in no path, or a model without weights.
    """
    _check_found("freeze", model, patterns)
    for variable in model.weights:
        if matches_any(variable.path, patterns):
            variable.trainable = False
    return count_frozen(model)


def train_only(model: keras.Model, patterns: Sequence[str]) -> Frozen:
    """Let nothing but the variables learn in whose path a pattern is found: the opposite of `freeze`, with its arguments."""
    _check_found("train_only", model, patterns)
    for variable in model.weights:
        variable.trainable = matches_any(variable.path, patterns)
    return count_frozen(model)


def count_frozen(model):
    """How many numbers of a model stay as they are and how many learn, a `Frozen`."""
    return Frozen(*(sum(math.prod(v.shape) for v in of) for of in (model.non_trainable_weights, model.trainable_weights)))


def _check_found(name, model, patterns):
    check_patterns(name, patterns)
    paths = [variable.path for variable in model.weights]
    if not paths:
        raise ValueError(f"{name} must have a model with weights, so one that is built; {model.name} has none.")
    for pattern in patterns:
        if not any(matches_any(path, [pattern]) for path in paths):
            raise ValueError(
                f"every pattern of {name} must be found in a variable path, such as {paths[0]!r}; {pattern!r} is in none."
            )
