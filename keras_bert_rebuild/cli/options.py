"""The options of all verbs, as they are declared in `options.toml`, with the standard library alone.

In the file, a verb has its `help`, the function that does it (`run`), `examples` of which the help begins with the first, the
options that `--help` shows (`common`; without it all but those in `further`), what helps when memory is exhausted
(`out_of_memory`), perhaps what is printed before Keras is imported (`first`), names of options in other programs that it accepts
(`spellings`), and its `options`: arguments of `add_argument`, or
only the help, under the names of the option and its placeholder. An option with neither a placeholder nor choices is a flag. To
these come those of `shared` sections, one for every field of `settings` but for those in `without`, and --overwrite, if `overwrite`
says of what. Options in `either` exclude each other. `choices`, and `accepts` (names in place of a path), may be the name of a list
in `words`, which a help may have in braces.

The help of an option that is a field of settings is the docstring of the field, read from the source of the dataclass, whose import
would be that of Keras.
"""

import ast
import functools
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_rebuild.cli import option_values

TABLE = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))
VERBS = TABLE["verbs"]
# From the names of fields to options that are called otherwise.
NAMES = TABLE["fields"]

VERBOSE = {"--verbose": "show the log of the backend and its libraries"}
ACTIONS = {"columns": option_values.Columns, "weights": option_values.Weights}


def option_of(name: str) -> str:
    """The option for a name in Python, such as --batch-size for batch_size."""
    return f"--{NAMES.get(name, name).replace('_', '-')}"


def options_of(verb: str) -> dict[str, dict[str, Any]]:
    """The options of a verb: from the first name of each to all its `names` and the arguments of `add_argument`."""
    declared, options = VERBS[verb], {}
    for section in (*(TABLE["shared"][name] for name in declared.get("shared", ())), declared["options"], VERBOSE):
        for key, option in section.items():
            *names, last = key.split()
            named = {"names": [*names, last]} if last.startswith("-") else {"names": names or [last.lower()], "metavar": last}
            options[named["names"][0]] = named | (option if isinstance(option, dict) else {"help": option})
    fields = settings_fields(declared["settings"]) if "settings" in declared else {}
    for name, field in fields.items():
        if name not in declared.get("without", ()):
            option = option_of(name)
            options[option] = field.option(name, fields, TABLE["settings"].get(name, {}) | options.get(option, {}))
    if "overwrite" in declared:
        what = f"replace {declared['overwrite']} of an earlier run; other files are kept"
        options["--overwrite"] = {"names": ["--overwrite"], "help": what}
    return {name: _completed(option) for name, option in options.items()}


def _completed(option):
    """An option with the functions and lists that it names, its default in the help, and its action if it is a flag."""
    words = TABLE["words"]
    for name in ("choices", "accepts"):
        if isinstance(option.get(name), str):
            option[name] = words[option[name]]
    help = re.sub(r"\{(\w+)\}", lambda match: ", ".join(words[match[1]]), option["help"])
    option["help"] = with_default(help, option.pop("shown", option.get("default")))
    if "type" in option:
        option["type"] = getattr(option_values, option["type"])
    if "action" in option:
        option["action"] = ACTIONS.get(option["action"], option["action"])
    elif option["names"][0].startswith("-") and not {"metavar", "choices"} & set(option):
        option["action"] = "store_true" if len(option["names"]) == 1 else option_values.Flag
    return option


class Field(NamedTuple):
    """A field of settings: its type as it is written, its default and its docstring."""

    type: str
    default: Any
    doc: str

    def option(self, name, fields, declared):
        """The arguments of `add_argument`; without the option the value is None, since a file of settings may have another.

        Args:
            name: of the field.
            fields: all of the settings; in the help, options stand for their names.
            declared: arguments instead of those that follow from the field.
        """
        doc = re.sub(r"`([^`]+)`", lambda match: option_of(match[1]) if match[1] in fields else match[1], self.doc)
        option = {"names": [option_of(name)], "dest": name, "help": doc, "shown": self.default}
        kinds = {
            "bool": {"names": [option_of(name), f"--no-{option_of(name)[2:]}"]},
            "bool | str": {"type": "yes_no_or_auto", "metavar": "yes|no|auto"},
            "int": {"type": "whole", "metavar": "N"},
            "float": {"type": "number", "metavar": "X"},
        }
        text = {} if "choices" in declared else {"metavar": "TEXT"}
        return option | kinds.get(self.type.removesuffix(" | None"), text) | declared


@functools.cache
def settings_fields(name):
    """The fields of a dataclass and of those it is made of, each a `Field` by its name, without importing them.

    Args:
        name: of the class, with its module.
    """
    module, _, name_of_class = name.rpartition(".")
    file = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    body = ast.parse(file.read_text(encoding="utf-8")).body
    imported = {each.name: node.module for node in body if isinstance(node, ast.ImportFrom) for each in node.names}
    (definition,) = (node for node in body if isinstance(node, ast.ClassDef) and node.name == name_of_class)
    fields = {}
    for base in reversed(definition.bases):
        fields |= settings_fields(f"{imported.get(base.id, module)}.{base.id}")
    for field, doc in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr):
            words = " ".join(doc.value.value.split()).removesuffix(".")
            default = field.value.args[0] if isinstance(field.value, ast.Call) else field.value
            fields[field.target.id] = Field(ast.unparse(field.annotation), ast.literal_eval(default), words)
    return fields


def with_default(words, default):
    """A help with the default value, unless it says already what happens without the option."""
    words = re.sub("; in Python .*", "", words)
    words = f"{words[0].lower() if words[1:2].islower() else words[0]}{words[1:]}".replace("%", "%%")
    if default is None or default in ((), []) or "default" in words:
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
