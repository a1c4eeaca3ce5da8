"""The command line page, generated from the parser: `python tests/helpers/command_line_page.py` writes it."""

from pathlib import Path

from keras_bert_rebuild.cli.options import TABLE, VERBS
from keras_bert_rebuild.cli.parsers import group_of, parser_of, value_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"

INTRODUCTION = """\
# Command line

`keras-bert VERB --help` prints the common options of this page, `--help-all` all of them, and `keras-bert --version` the
version. A verb ends with exit code 0, with 2 and a sentence for an error that the user can fix, with 130 when it was
interrupted; a training that was stopped by a signal ends with 128 and its number, and the same command resumes it.
`KERAS_BACKEND=jax` in front of a command chooses the backend, and `--verbose` after any verb shows the log of the backend and
its libraries. Options are accepted with hyphens or underscores (`--batch_size`), and so are values (`multi_label`); for [other
names](../compatibility.md#options-of-the-command-line) the answer is ours. Where a verb takes a model, it takes the folder of a
run, too. [Outputs](../security.md#outputs) describes when an existing output is replaced.
"""


def page():
    """The page as text."""
    return "\n".join([INTRODUCTION, *(part for verb in VERBS for part in _verb(verb, parser_of(verb), VERBS[verb]["help"]))])


def _verb(verb, parser, text):
    yield f"## keras-bert {verb}\n\n{text[0].upper()}{text[1:]}.\n"
    yield f"```text\n{parser.usage.replace('%%', '%')}\n```\n"
    actions = [action for action in parser._actions if not {"--help", "--help-all", "--verbose"} & set(action.option_strings)]
    yield "| | |\n|---|---|"
    for action in actions:
        if not action.option_strings:
            yield f"| {_code(value_of(action))} | {_help(action)} |"
    for title in TABLE["groups"]:
        here = [action for action in actions if action.option_strings and group_of(action.option_strings)[0] == title]
        if here:
            yield f"| **{title}** | |"
        for action in sorted(here, key=lambda action: group_of(action.option_strings)[1]):
            value = [value_of(action)] if action.nargs != 0 else []
            name = ", ".join(" ".join([name, *value]) for name in action.option_strings)
            yield f"| {_code(name)} | {_help(action)} |"
    lines = "\n".join(f"keras-bert {line}" for line in VERBS[verb]["examples"])
    yield f"\n```bash\n{lines}\n```\n"


def _help(action):
    words = (action.help or "").replace("%%", "%").replace("|", "&#124;")
    return f"{words} (required)" if action.required and action.option_strings else words


def _code(text):
    """Code in a table cell, which may not contain a bar."""
    return f"<code>{text.replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
