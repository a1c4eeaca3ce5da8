"""The command line page, generated from the parser: `python tests/helpers/command_line_page.py` writes it."""

import argparse
import importlib
from pathlib import Path

from keras_bert_rebuild.cli.main import VERBS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"

INTRODUCTION = """\
# Command line

`keras-bert VERB --help` prints the text of this page, and `keras-bert --version` the version. A verb ends with exit code 0, with 2
and a sentence for an error that the user can fix, with 130 when it was interrupted; a training that was stopped by a signal ends
with 128 and its number, and the same command resumes it. `KERAS_BACKEND=jax` in front of a command chooses the backend, and
`--verbose` after any verb shows what the libraries of the backend write to their log.
[Outputs](../outputs.md) describes when an existing output is replaced.
"""


def page():
    """The page as text."""
    return "\n".join([INTRODUCTION, *(part for verb, module, text in VERBS for part in _verb(verb, module, text))])


def _verb(verb, module, text):
    parser = argparse.ArgumentParser(prog=f"keras-bert {verb}", add_help=False)
    importlib.import_module(module).add_arguments(parser)
    positional = [action for action in parser._actions if not action.option_strings]
    needed = [action for action in parser._actions if action.option_strings and action.required]
    line = [_value(a) if a.required else f"[{_value(a)}]" for a in positional]
    line += [f"{a.option_strings[0]} {_value(a)}" for a in needed]
    yield f"## keras-bert {verb}\n\n{text[0].upper()}{text[1:]}.\n"
    yield f"```text\n{' '.join(['keras-bert', verb, *line])}\n```\n"
    yield "| | |\n|---|---|"
    for action in parser._actions:
        name = " ".join([*action.option_strings[:1], *([_value(action)] if action.nargs != 0 else [])])
        yield f"| {_code(name)} | {_help(action)} |"
    yield ""


def _value(action):
    """The placeholder for the value of an argument."""
    if action.choices and not action.metavar:
        return "|".join(map(str, action.choices))
    name = action.metavar or action.dest.upper()
    return f"{name} ..." if action.nargs in ("+", "*") else name


def _help(action):
    words = (action.help or "").replace("%%", "%").replace("|", "&#124;")
    return f"{words} (needed)" if action.required and action.option_strings else words


def _code(text):
    """Code in a table cell, which may not contain a bar."""
    return f"<code>{text.replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
