"""The parts of the data of a fine-tuning: read from what a user gives, and dev taken from training where there is none."""

import os
import random
from collections import Counter
from typing import NamedTuple

from keras_bert_rebuild.data.labelled.find_columns import listed
from keras_bert_rebuild.data.labelled.read_labelled import read_labelled
from keras_bert_rebuild.data.tables_of_objects import splits_of
from keras_bert_rebuild.files.limits import is_number

# The parts of the data, and what the splits of datasets are called.
PARTS = {"train": ("train",), "dev": ("dev", "validation", "valid", "val"), "test": ("test",)}
# Labels that are listed.
MAX_LABELS = 8

# The fraction of the training examples that becomes dev.
FRACTION = 0.1


class Data(NamedTuple):
    """What a fine-tuning learns from and is measured on."""

    examples: dict
    """Lists of examples by name: train, dev and perhaps test."""

    sources: dict
    """Where each of them comes from, in words."""

    line: str
    """What was understood of it, in one line."""


def read_data(train, dev, test, spec, settings):
    """Read the examples of a fine-tuning.

    Args:
        train: as for `read_examples`, or a dictionary of splits with one named train, such as a `datasets.DatasetDict`.
        dev: the same; None for a split of such a name, or else a tenth of the training examples.
        test: the same; None for a split of such a name with labels, or none.
        spec: a `FinetuneTask`.
        settings: `FinetuneSettings`, for columns, header, format and seed.

    Returns:
        A `Data`.

    Raises:
        ValueError: examples cannot be read, or there is no split named train.
    """
    parts = _with_splits(train, dev, test)
    reading = {name: getattr(settings, name) for name in ("columns", "header", "format")}
    read, note = {}, ""
    for name, source in parts.items():
        optional = source is not test and name == "test"  # the labels of many public test sets are secret
        part = read_labelled(source, spec.examples, labelled=not optional, name=name, **reading)
        if not optional or all(example.right() is not None for example in part.examples):
            read[name] = part
    examples = {name: part.examples for name, part in read.items()}
    sources = {name: name_of(parts[name], rows) for name, rows in examples.items()}
    if "dev" not in examples:
        train, dev = take_dev(examples["train"], settings.seed)
        examples, sources["dev"] = {**examples, "train": train, "dev": dev}, "a tenth of train"
        note = " (a tenth of train, stratified, equal texts together)"
    sizes = (f"{name} {len(examples[name]):,}{note if name == 'dev' else ''}" for name in PARTS if name in examples)
    words = [", ".join(sizes), *_columns_in_words(read["train"].columns), *_labels_in_words(spec, examples["train"])]
    return Data(examples, sources, "; ".join(words))


def _with_splits(train, dev, test):
    """What examples come from by name, without None; those that are missing from the splits of train, if it has any."""
    parts, splits = {"train": train, "dev": dev, "test": test}, splits_of(train)
    if splits is not None:
        if "train" not in splits:
            raise ValueError(f"expected a split named train; train has {', '.join(map(str, splits))}.")
        parts["train"] = None
        for name, usual in PARTS.items():
            if parts[name] is None:
                parts[name] = next((splits[split] for split in usual if split in splits), None)
    return {name: source for name, source in parts.items() if source is not None}


def _columns_in_words(columns):
    """The column that each part of the examples is in."""
    if columns:
        yield ", ".join(f"{part} = {', '.join(map(str, listed(names)))}" for part, names in columns.items())


def _labels_in_words(spec, examples):
    """The labels of examples, if they have any."""
    labels = sorted(map(str, spec.label_counts(examples) or ()))
    if labels:
        more = f" and {len(labels) - MAX_LABELS:,} more" if len(labels) > MAX_LABELS else ""
        yield f"{len(labels):,} labels: {', '.join(labels[:MAX_LABELS])}{more}"


def name_of(source, examples):
    """The name of examples in reports and errors."""
    return str(source) if isinstance(source, (str, os.PathLike)) else f"{len(examples)} examples"


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
