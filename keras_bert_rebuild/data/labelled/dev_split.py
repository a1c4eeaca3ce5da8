"""Dev examples taken from the training examples: stratified, and without texts that remain in training."""

import random
from collections import Counter

from keras_bert_rebuild.files.limits import is_number

# The fraction of the training examples that becomes dev.
FRACTION = 0.1


def take_dev(examples, seed=0, fraction=FRACTION):
    """Split examples into training and dev.

    Examples with equal texts are never separated; of a pair or group the first text counts, of a question its context. Every label
    has its fraction in dev, as nearly as whole examples allow, and at least one example in training; scores have theirs in every
    range.

    Args:
        examples: a list of `Example`.
        seed: seed of the choice.
        fraction: of the examples, for dev.

    Returns:
        Two lists, in the order of the examples.

    Raises:
        ValueError: no example can be taken: all have one text, or each label a single one.
    """
    groups = {}
    for i, example in enumerate(examples):
        groups.setdefault(example.split_text().strip().lower(), []).append(i)
    groups = list(groups.values())
    random.Random(seed).shuffle(groups)
    groups.sort(key=lambda group: _stratum(examples[group[0]]))
    remaining = Counter(label for example in examples for label in _names(example))
    due, dev = 0.5, set()
    for group in groups:
        due += fraction * len(group)
        labels = Counter(label for i in group for label in _names(examples[i]))
        if due >= len(group) and all(remaining[label] > count for label, count in labels.items()):
            due -= len(group)
            remaining -= labels
            dev.update(group)
    if not dev or len(dev) == len(examples):
        raise ValueError(f"expected examples of which a tenth can be taken as dev; got {len(examples)}: give dev as well.")
    return [example for i, example in enumerate(examples) if i not in dev], [examples[i] for i in sorted(dev)]


def _names(example):
    """The names of the labels of an example; empty for scores."""
    return {label for label in example.labels() if isinstance(label, str)}


def _stratum(example):
    """A key by which examples with the same labels, or similar scores, are neighbours."""
    numbers = [float(label) for label in example.labels() if is_number(label)]
    return sorted(_names(example)), numbers
