"""The values of options, from words, with the standard library alone: a mistake is answered before anything else is imported."""

import argparse
import math
from pathlib import Path


def add_overwrite(parser, what):
    """Declare --overwrite."""
    parser.add_argument("--overwrite", action="store_true", help=f"replace {what} of an earlier run; other files are kept")


def yes_or_no(text):
    """True or False from a word."""
    answers = {"yes": True, "true": True, "no": False, "false": False}
    if text.lower() not in answers:
        raise argparse.ArgumentTypeError(f"expected yes or no; got {text!r}")
    return answers[text.lower()]


def whole(text):
    """A whole number from a word."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number; got {text!r}") from None


def number(text):
    """A number from a word."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number; got {text!r}") from None


def yes_no_or_auto(text):
    """True, False or "auto" from a word."""
    return text if text == "auto" else yes_or_no(text)


def existing(text):
    """The path of something that is read: before anything is imported, `early_answers` checks that it is there."""
    return Path(text)


def checkpoint(text):
    """The path of a model: the same, or the prefix of the files of a TensorFlow checkpoint."""
    return text


def size_or_path(text):
    """The name of a size, or the path of a config file."""
    return text


def positive(text):
    """A whole number of at least 1 from a word."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1; got {text!r}")
    return value


def above_zero(text):
    """A number above 0 from a word."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0; got {text!r}")
    return value
