"""Options from the fields of settings: how they are parsed, and their help."""

import argparse
import inspect
import math
import re


def option_kind(field, choices=(), metavars=()):
    """The arguments of `add_argument` for a field of a dataclass.

    Args:
        field: a field of type bool, int, float or str, or one of these or None.
        choices: a list of values by the name of a field.
        metavars: the placeholder of a value in the help, by the name of a field.
    """
    if field.name in choices:
        return {"choices": choices[field.name]}
    if field.type in (bool, bool | None):
        return {"type": yes_or_no, "metavar": "yes|no"}
    if field.type == bool | str:
        return {"type": lambda text: text if text == "auto" else yes_or_no(text), "metavar": "yes|no|auto"}
    if field.type in (int, int | None):
        return {"type": int, "metavar": "N"}
    if field.type in (float, float | None):
        return {"type": float, "metavar": "X"}
    return {"metavar": dict(metavars).get(field.name, "TEXT")}


def add_overwrite(parser, what):
    """Declare --overwrite."""
    parser.add_argument("--overwrite", action="store_true", help=f"replace {what} of an earlier call, and no other file")


def refuse_together(args, *pairs):
    """Refuse two options that exclude each other.

    Args:
        args: the arguments.
        *pairs: names of fields, `(one, other)`.

    Raises:
        ValueError: both of a pair were given.
    """
    for one, other in pairs:
        if all(getattr(args, name) not in (None, False) for name in (one, other)):
            first, second = (f"--{name.replace('_', '-')}" for name in (one, other))
            raise ValueError(f"{first} and {second} exclude each other: leave one of them out.")


def yes_or_no(text):
    """True or False from a word."""
    answers = {"yes": True, "true": True, "no": False, "false": False}
    if text.lower() not in answers:
        raise argparse.ArgumentTypeError(f"expected yes or no; got {text!r}")
    return answers[text.lower()]


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


def parts(parser, option, values):
    """A dictionary from words of the form NAME=VALUE."""
    wrong = next((value for value in values if not value.partition("=")[0] or not value.partition("=")[2]), None)
    if wrong is not None:
        parser.error(f"argument {option}: expected NAME=VALUE; got {wrong!r}")
    return {name: value for name, _, value in (text.rpartition("=") for text in values)}


def docs(settings):
    """The docstring after every field of a dataclass and of those it is made of, without line breaks."""
    source = "".join(inspect.getsource(part) for part in reversed(settings.__mro__) if part is not object)
    found = re.findall(r'^    ([a-z_0-9]+): [^\n]+\n    """(.+?)"""', source, re.M | re.S)
    return {name: " ".join(text.replace("`", "").split()).removesuffix(".") for name, text in found}
