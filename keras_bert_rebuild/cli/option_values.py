"""The values of options, from words, and the files that they name: without Keras, as `parsers.py` is."""

import argparse
import difflib
import math
import os
from pathlib import Path

from keras_bert_rebuild.files.hub import MEANT_NAMES, named_repository

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


def _numbers(what, convert, is_allowed=lambda value: True):
    """The type of an option for numbers.

    Args:
        what: what is expected, such as "a number above 0".
        convert: makes a number of a word, or raises a ValueError.
        is_allowed: whether the option takes that number.
    """

    def parse(text):
        try:
            value = convert(text)
        except (ValueError, OverflowError):
            value = None
        if value is None or not is_allowed(value):
            raise argparse.ArgumentTypeError(f"expected {what}; got {text!r}")
        return value

    return parse


def _whole(text):
    """A whole number from a word such as 1000 or 137e9."""
    if "e" not in text.lower():
        return int(text)
    value = float(text)
    if not value.is_integer():
        raise ValueError
    return int(value)


whole = _numbers("a whole number", _whole)
whole_or_auto = _numbers("a whole number or auto", lambda text: text if text == "auto" else _whole(text))
positive = _numbers("a whole number of at least 1", _whole, lambda value: value >= 1)
number = _numbers("a number", float)
above_zero = _numbers("a number above 0", float, lambda value: 0 < value < math.inf)


def text(words):
    """A text that is not empty, as it is where a variable of the shell has no value."""
    if not words.strip():
        raise argparse.ArgumentTypeError(f"expected a text; got {words!r}")
    return words


def path(text):
    """A path, which is written or may be missing."""
    return Path(text)


def existing(text):
    """The path of something that is read: before Keras is imported, `missing_file` checks that it is there."""
    return Path(text)


def place(text):
    """The folder of an index, or its address in object storage, which is written or may be missing."""
    return text if "://" in text else Path(text)


def index(text):
    """The folder or the address of an index that is read."""
    return place(text)


def checkpoint(text):
    """The path of a model that is read, or the prefix of the files of a TensorFlow checkpoint."""
    return text


def model(text):
    """The path of a model, or its name on the Hugging Face hub, which `run` replaces by the folder that is downloaded."""
    return text


def tokenizer(text):
    """The path of a tokenizer, or the name of a model on the hub, of which no weights are downloaded."""
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
        columns = _pairs(parser, option_string, values)
        setattr(namespace, self.dest, {part: name.split(",") if "," in name else name for part, name in columns.items()})


class Weights(argparse.Action):
    """LABEL=X as a dictionary, or the word for weights from the frequencies of labels."""

    def __call__(self, parser, namespace, values, option_string=None):
        if values == [BALANCED]:
            setattr(namespace, self.dest, BALANCED)
            return
        weights = _pairs(parser, option_string, values)
        try:
            setattr(namespace, self.dest, {label: float(weight) for label, weight in weights.items()})
        except ValueError:
            parser.error(f"argument {option_string}: expected {BALANCED}, or numbers by label; got {' '.join(values)!r}")


def _pairs(parser, option, values):
    """A dictionary from words of the form NAME=VALUE."""
    wrong = next((value for value in values if not value.partition("=")[0] or not value.partition("=")[2]), None)
    if wrong is not None:
        parser.error(f"argument {option}: expected NAME=VALUE; got {wrong!r}")
    return {name: value for name, _, value in (text.rpartition("=") for text in values)}


def missing_file(parser: argparse.ArgumentParser, args: argparse.Namespace) -> str | None:
    """A sentence about the first file that a command line names and that is not there, or None.

    Args:
        parser: of the verb; the names that an option takes instead of a path are the `accepts` of its action.
        args: the values.
    """
    for action in parser._actions:
        if action.type not in (existing, index, checkpoint, model, tokenizer, described, size_or_path):
            continue
        values, names = getattr(args, action.dest), getattr(action, "accepts", ())
        for value in values if isinstance(values, list) else [values]:
            if value is None or os.path.lexists(value) or str(value) in names or (action.type is index and "://" in str(value)):
                continue
            if action.type in (checkpoint, model) and _is_prefix(value):
                continue
            what = "a file, a folder or a known name" if names else "a file or folder"
            option = next(iter(action.option_strings), action.metavar)
            if action.type in (model, tokenizer, described):
                try:
                    if named_repository(value) is not None:
                        continue
                except ValueError as error:
                    return f"{option}: {error}"
                what = "a file, a folder or a name on the Hugging Face hub"
            return f"{option} must be {what} that exists; got {str(value)!a}{_hint(value, names)}."
    return None


def _is_prefix(value):
    path = Path(value)
    return path.parent.is_dir() and any(path.parent.glob(f"{_escaped(path.name)}.*"))


def _escaped(name):
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _hint(value, names):
    """A question about a missing path: a name that people call so, or the name or the file beside it that is spelled most alike."""
    path = Path(value)
    try:
        beside = os.listdir(path.parent)
    except OSError:
        beside = []
    size = str(value).lower().removeprefix("bert-").partition("-")[0]  # of bert-base and bert-base-uncased
    meant = [name for name in (MEANT_NAMES.get(str(value).lower()), size) if name in names]
    near = meant or difflib.get_close_matches(path.name, [*names, *beside], n=1, cutoff=0.75)
    if not near:
        return ""
    return f"; did you mean {near[0] if near[0] in names else str(path.parent / near[0])!a}"
