"""The examples of a fine-tuning, read and looked at before anything is trained or written."""

from collections import Counter
from dataclasses import fields
from pathlib import Path

from keras_bert_rebuild.data.read_labelled import read_examples
from keras_bert_rebuild.recipes.finetune_settings import BALANCED

# The parts of an example that a model is not shown.
NOT_SHOWN = ("id", "label", "tags", "spans", "answers", "score", "where")


def examples_of(given, spec, settings, labelled=True):
    """A list of examples from a file, or the list that is given.

    Args:
        given: the path of a file, or examples.
        spec: a `FinetuneTask`.
        settings: `FinetuneSettings`, for columns, header and format.
        labelled: as for `read_examples`.

    Raises:
        ValueError: there is no example, or the file is not what `read_examples` reads.
    """
    if not isinstance(given, (str, Path)):
        examples = list(given)
        if not examples:
            raise ValueError("expected at least one example; got an empty list.")
        return examples
    chosen = {name: getattr(settings, name) for name in ("columns", "header", "format")}
    return read_examples(given, spec.examples, labelled=labelled, **chosen)


def name_of(given):
    """How examples are named in reports and errors."""
    return str(given) if isinstance(given, (str, Path)) else f"{len(given)} examples"


def check_examples(examples, spec, train):
    """Refuse examples that cannot be trained on, or whose labels cannot be written.

    Args:
        examples: lists by part, "train" and others.
        spec: a `FinetuneTask`.
        train: what was given to train on.
    """
    for rows in examples.values():
        check_names(rows)
    check_differ(examples["train"], spec, train)


def check_names(examples):
    """Refuse labels that no file in UTF-8 can hold: the report and the config would, after the training.

    Raises:
        ValueError: it names the example.
    """
    for number, example in enumerate(examples):
        spans = (label for _, _, label in getattr(example, "spans", None) or ())
        for label in (*_listed(getattr(example, "label", None)), *(getattr(example, "tags", None) or ()), *spans):
            if isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
                place = getattr(example, "where", "") or f"example {number}"
                raise ValueError(f"a label must be text that UTF-8 can hold; {place} has {label!a}.")


def _listed(label):
    return label if isinstance(label, (list, tuple, set, frozenset)) else (label,)


def check_differ(examples, spec, given):
    """Refuse examples that all have one label: there is nothing to learn.

    Raises:
        ValueError: it names the file.
    """
    if spec.examples == "classification":
        counts = Counter(example.label for example in examples)
    elif spec.examples == "tagging":
        counts = Counter(tag for example in examples for tag in _tags(example))
    else:
        return
    if len(counts) < 2:
        found = f"all {len(examples)} of {name_of(given)} have {next(iter(counts), None)!r}"
        raise ValueError(f"expected examples of at least two labels; {found}.")


def _tags(example):
    """The tags of words, or O and the labels of the spans of a text."""
    return example.tags or () if hasattr(example, "words") else ("O", *(label for _, _, label in example.spans or ()))


def count_in_training(examples, train):
    """How many examples show a model what one of those to train on shows, whatever the answer is."""
    seen = {_shown(example) for example in train}
    return sum(_shown(example) in seen for example in examples)


def _shown(example):
    """The texts of an example as a key."""
    values = (getattr(example, field.name) for field in fields(example) if field.name not in NOT_SHOWN)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def loss_weights(examples, spec, settings):
    """Weights by label for the loss, or None: given ones, or n / (labels · n of the label) where all shall count the same.

    Raises:
        ValueError: the task has no labels to weigh, or examples have none of a given one.
    """
    weights = settings.class_weights
    if weights is None:
        return None
    if spec.examples == "classification":
        counts = Counter(example.label for example in examples)
    elif spec.examples == "tagging" and all(hasattr(example, "words") for example in examples):
        counts = Counter(tag for example in examples for tag in example.tags)
    else:
        raise ValueError(f"class_weights must be for a classification of texts or of words; the task is {spec.name}.")
    if weights == BALANCED:
        return {label: counts.total() / (len(counts) * count) for label, count in sorted(counts.items())}
    unknown = [label for label in weights if str(label) not in counts]
    if unknown:
        known = ", ".join(sorted(counts))
        raise ValueError(f"class_weights must be of labels of the examples, {known}; got {', '.join(map(str, unknown))}.")
    return {str(label): float(weight) for label, weight in weights.items()}
