"""Options from the fields of settings: their help, how they are parsed, and the settings that a command line gives."""

import dataclasses
import inspect
import re

from keras_bert_rebuild.cli.option_kinds import existing, number, whole, yes_no_or_auto
from keras_bert_rebuild.cli.shared_options import add_flag, option_of


def add_settings(parser, settings, kinds, without=()):
    """Declare an option for every field of settings, and --settings for a file of them.

    Args:
        parser: where.
        settings: a dataclass.
        kinds: arguments of `add_argument` for fields that are more than a number, a word or a yes.
        without: fields that have no option.
    """
    parser.add_argument(
        "--settings",
        type=existing,
        metavar="YAML",
        help="file of settings, named as the options below; options on the command line take precedence",
    )
    helps = docs(settings)
    for field in dataclasses.fields(settings):
        if field.name in without:
            continue
        name, help = option_of(field.name).removeprefix("--"), with_default(helps[field.name], field.default)
        if field.type in (bool, bool | None):
            add_flag(parser, name, help, dest=field.name)
        else:
            kind = dict(kinds.get(field.name) or kind_of(field))
            known = kind.pop("known", None)
            parser.add_argument(f"--{name}", dest=field.name, help=help, **kind).known = known


def kind_of(field):
    """The arguments of `add_argument` for a field of a dataclass.

    Args:
        field: a field of type int, float or str, or one of these or None, or bool or str.
    """
    if field.type == bool | str:
        return {"type": yes_no_or_auto, "metavar": "yes|no|auto"}
    if field.type in (int, int | None):
        return {"type": whole, "metavar": "N"}
    if field.type in (float, float | None):
        return {"type": number, "metavar": "X"}
    return {"metavar": "TEXT"}


def given_settings(args, settings, without=()):
    """The settings of a command line by field: those of --settings, and above these the options.

    Args:
        args: the arguments of a verb that called `add_settings`.
        settings: the dataclass.
        without: fields that have no option.

    Raises:
        ValueError: the file cannot be read.
    """
    from keras_bert_rebuild.recipes.run_folder import read_yaml

    fields = {field.name for field in dataclasses.fields(settings)}
    by_option = {option_of(name).removeprefix("--"): name for name in fields}
    given = {}
    for name, value in (read_yaml(args.settings) if args.settings else {}).items():
        known = name in fields or not isinstance(name, str)
        given[name if known else by_option.get(name.replace("_", "-"), name)] = value
    return given | {name: getattr(args, name) for name in fields - set(without) if getattr(args, name) is not None}


def docs(settings):
    """The docstring after every field of a dataclass and of those it is made of, in one line, with options for other fields."""
    source = "".join(inspect.getsource(part) for part in reversed(settings.__mro__) if part is not object)
    found = re.findall(r'^    ([a-z_0-9]+): [^\n]+\n    """(.+?)"""', source, re.M | re.S)
    names = dict(found)

    def option(match):
        return option_of(match[1]) if match[1] in names else match[1]

    return {name: re.sub(r"`([^`]+)`", option, " ".join(text.split())).removesuffix(".") for name, text in found}


def with_default(words, default):
    """A help with the default value, unless it says already what happens without the option."""
    words = re.sub("; in Python .*", "", words)
    words = f"{words[0].lower() if words[1:2].islower() else words[0]}{words[1:]}".replace("%", "%%")
    if default is None or default == () or default is dataclasses.MISSING or "default" in words:
        return words
    if isinstance(default, bool):
        shown = "yes" if default else "no"
    elif isinstance(default, float):
        shown = f"{default:g}".replace("e-0", "e-")
    else:
        shown = " ".join(map(str, default)) if isinstance(default, (tuple, list)) else default
    if re.search(r"\([a-z-]+(, [a-z-]+)*\)$", words):  # the tasks that have the setting
        return f"{words.removesuffix(')')}; default: {shown})"
    return f"{words} (default: {shown})"
