"""The values of options, from words, and the files that they name: without Keras, as `parsers.py` is."""

import argparse
import difflib
import math
import os
import re
from pathlib import Path

from keras_bert_rebuild.files.hub import named_repository

# The word for weights of labels from their frequencies.
BALANCED = "balanced"


def yes_or_no(text):
    """True or False from a word."""
    answers = {"yes": True, "true": True, "no": False, "false": False}
    if text.lower() not in answers:
        raise argparse.ArgumentTypeError(f"expected yes or no; got {text!r}")
    return answers[text.lower()]


def yes_no_or_auto(text):
    """True, False or "auto" from a word."""
    return text if text == "auto" else yes_or_no(text)


def whole(text):
    """A whole number from a word."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number; got {text!r}") from None


def large(text):
    """A whole number from a word, such as 137e9."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer():
        raise argparse.ArgumentTypeError(f"expected a whole number; got {text!r}")
    return int(value)


def positive(text):
    """A whole number of at least 1 from a word."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1; got {text!r}")
    return value


def number(text):
    """A number from a word."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number; got {text!r}") from None


def above_zero(text):
    """A number above 0 from a word."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0; got {text!r}")
    return value


def part(text):
    """A part and the number of parts, `(0, 4)` from 0/4."""
    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected I/N with I from 0 to N - 1; got {text!r}")
    return int(found[1]), int(found[2])


def path(text):
    """A path, which is written or may be missing."""
    return Path(text)


def existing(text):
    """The path of something that is read: before Keras is imported, `missing_file` checks that it is there."""
    return Path(text)


def checkpoint(text):
    """The path of a model: the same, or the prefix of the files of a TensorFlow checkpoint."""
    return text


def model(text):
    """The path of a model, or its name on the Hugging Face hub, which `run` replaces by the folder that is downloaded."""
    return text


def tokenizer(text):
    """The same, of a tokenizer: no weights are downloaded."""
    return Path(text)


def described(text):
    """A known name, the path of a config file or model, or a name on the hub, of which no weights are downloaded."""
    return text


def size_or_path(text):
    """A name that is known, such as that of a size, or the path of a config file or model."""
    return text


class Flag(argparse.Action):
    """Options without a value: the first is yes, all others are no."""

    def __init__(self, option_strings, dest, **options):
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, option_string == self.option_strings[0])


class Columns(argparse.Action):
    """PART=NAME, or PART=NAME,NAME for parts of several columns, as a dictionary."""

    def __call__(self, parser, namespace, values, option_string=None):
        found = _pairs(parser, option_string, values)
        setattr(namespace, self.dest, {part: name.split(",") if "," in name else name for part, name in found.items()})


class Weights(argparse.Action):
    """LABEL=X as a dictionary, or the word for weights from the frequencies of labels."""

    def __call__(self, parser, namespace, values, option_string=None):
        if values == [BALANCED]:
            setattr(namespace, self.dest, BALANCED)
            return
        found = _pairs(parser, option_string, values)
        try:
            setattr(namespace, self.dest, {label: float(weight) for label, weight in found.items()})
        except ValueError:
            parser.error(f"argument {option_string}: expected {BALANCED}, or numbers by label; got {' '.join(values)!r}")


def _pairs(parser, option, values):
    """A dictionary from words of the form NAME=VALUE."""
    wrong = next((value for value in values if not value.partition("=")[0] or not value.partition("=")[2]), None)
    if wrong is not None:
        parser.error(f"argument {option}: expected NAME=VALUE; got {wrong!r}")
    return {name: value for name, _, value in (text.rpartition("=") for text in values)}


def missing_file(parser: argparse.ArgumentParser, given: argparse.Namespace) -> str | None:
    """A sentence about the first file that a command line names and that is not there, or None.

    Args:
        parser: of the verb; the names that an option takes instead of a path are the `known` of its action.
        given: the values.
    """
    for action in parser._actions:
        if action.type not in (existing, checkpoint, model, tokenizer, described, size_or_path):
            continue
        values, known = getattr(given, action.dest), getattr(action, "known", ())
        for value in values if isinstance(values, list) else [values]:
            if value is None or os.path.lexists(value) or str(value) in known:
                continue
            if action.type in (checkpoint, model) and _is_prefix(value):
                continue
            what = "a file, a folder or a known name" if known else "a file or folder"
            name = next(iter(action.option_strings), action.metavar)
            if action.type in (model, tokenizer, described):
                try:
                    if named_repository(value) is not None:
                        continue
                except ValueError as error:
                    return f"{name}: {error}"
                what = "a file, a folder or a name on the Hugging Face hub"
            return f"{name} must be {what} that exists; got {str(value)!a}{_hint(value, known)}."
    return None


def _is_prefix(value):
    path = Path(value)
    return path.parent.is_dir() and any(path.parent.glob(f"{_escaped(path.name)}.*"))


def _escaped(name):
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _hint(value, known):
    """The nearest name: of a known one, or of a file next to the one that is missing."""
    path = Path(value)
    try:
        beside = os.listdir(path.parent)
    except OSError:
        beside = []
    near = difflib.get_close_matches(path.name, [*known, *beside], n=1, cutoff=0.75)
    if not near:
        return ""
    meant = near[0] if near[0] in known else str(path.parent / near[0])
    return f"; did you mean {meant!a}"
