"""The options of all verbs as plain data, in `parser.json`: what a help or a typo needs, without the import of Keras.

`keras_bert_command` makes parsers of it before it imports anything else. The file is written by `tests/helpers/parser_file.py`, and
a test compares it with the options that the verbs declare.
"""

import argparse
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("parser.json")

# The kinds of values that are checked without the package: those of Python, and functions of `option_kinds`.
BUILT_IN = ("int", "float")
OF_OPTION_KINDS = (
    *("whole", "number", "positive", "above_zero", "yes_or_no", "yes_no_or_auto"),
    *("existing", "checkpoint", "size_or_path"),
)

# The actions of argparse that need no value, and the one that collects values; every other stores its value.
ACTIONS = {
    "_StoreTrueAction": "store_true",
    "_StoreFalseAction": "store_false",
    "_StoreConstAction": "store_const",
    "_AppendAction": "append",
    "_HelpAction": "help",
    "Flag": "flag",
}


def parser_table(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """A parser as plain data, from which `keras_bert_command` makes one with the same help."""
    verbs = next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)
    actions = [action for action in parser._actions if action is not verbs and ACTIONS.get(type(action).__name__) != "help"]
    groups = [[action.dest for action in group._group_actions] for group in parser._mutually_exclusive_groups]
    found: dict[str, Any] = {"description": parser.description, "options": [_option(action) for action in actions]}
    if groups:
        found["alternatives"] = groups
    if (epilog := parser.epilog or "").startswith("example"):
        found["examples"] = [line.strip().removeprefix("keras-bert ") for line in epilog.replace("%%", "%").splitlines()[1:]]
    if verbs is not None:
        helps = {choice.dest: choice.help for choice in verbs._choices_actions}
        found["verbs"] = {name: {"help": helps[name], **parser_table(sub)} for name, sub in verbs.choices.items()}
    return found


def _option(action):
    """The arguments of `add_argument` that are not the default ones, and "names"."""
    kind = ACTIONS.get(type(action).__name__, "store")
    found = {"names": action.option_strings or [action.dest]}
    if kind != "store":
        found["action"] = kind
    if action.option_strings and action.dest != action.option_strings[0].lstrip("-").replace("-", "_"):
        found["dest"] = action.dest
    if action.option_strings and action.required:
        found["required"] = True
    if action.nargs is not None and kind in ("store", "append"):
        found["nargs"] = action.nargs
    if action.choices is not None:
        found["choices"] = list(action.choices)
    name = getattr(action.type, "__name__", None)
    if name in (*BUILT_IN, *OF_OPTION_KINDS):
        found["type"] = name
    if getattr(action, "known", None):
        found["known"] = list(action.known)
    if action.metavar is not None:
        found["metavar"] = action.metavar
    if action.help is not None:
        found["help"] = action.help
    return found


def as_text(table: dict[str, Any]) -> str:
    """The text of the file."""
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"
