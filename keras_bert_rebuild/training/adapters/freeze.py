"""Freezing of variables by path."""

import math
from collections import namedtuple
from collections.abc import Sequence

import keras

from keras_bert_rebuild.training.optimizers.path_patterns import check_patterns, matches_any

# How many numbers are frozen, and how many are trained.
Frozen = namedtuple("Frozen", ["frozen", "trained"])


def freeze(model: keras.Model, patterns: Sequence[str]) -> Frozen:
    """Freeze the variables whose path matches a pattern; call it before `compile`.

    A model's file does not record which variables are frozen, only which layers; `from_pretrained(trainable=...)` freezes layers.

    Args:
        model: any Keras model.
        patterns: a list of regular expressions over variable paths, such as "^Embedding-" or "^Encoder-[1-4]-".

    Returns:
        A `Frozen`: how many numbers of the model are now frozen and how many are trained.

    Raises:
        ValueError: a pattern is not a regular expression or matches no path, or the model has no weights.
    """
    _check_found("freeze", model, patterns)
    for variable in model.weights:
        if matches_any(variable.path, patterns):
            variable.trainable = False
    return count_frozen(model)


def train_only(model: keras.Model, patterns: Sequence[str]) -> Frozen:
    """Train only the variables whose path matches a pattern: the opposite of `freeze`, with the same arguments."""
    _check_found("train_only", model, patterns)
    for variable in model.weights:
        variable.trainable = matches_any(variable.path, patterns)
    return count_frozen(model)


def count_frozen(model):
    """How many numbers of a model are frozen and how many are trained, a `Frozen`."""
    groups = (model.non_trainable_weights, model.trainable_weights)
    return Frozen(*(sum(math.prod(variable.shape) for variable in group) for group in groups))


def _check_found(name, model, patterns):
    check_patterns(name, patterns)
    paths = [variable.path for variable in model.weights]
    if not paths:
        raise ValueError(f"{name} must have a model with weights, which must be built; {model.name} has none.")
    for pattern in patterns:
        if not any(matches_any(path, [pattern]) for path in paths):
            raise ValueError(f"every pattern of {name} must match a variable path, such as {paths[0]!r}; {pattern!r} matches none.")
