"""The texts of `--help` and `--help-all`: of the command all verbs, of a verb a command that runs and its options."""

import argparse
from collections.abc import Mapping
from typing import Any

from keras_bert_rebuild.cli.options import TABLE, VERBS


def overview() -> str:
    """The help of the command: all verbs in groups, each with a command that runs."""
    lines = ["BERT for Keras 3: fine-tune, search, pretrain, and look inside.", "", "usage: keras-bert VERB ... [options]"]
    for title, names in TABLE["overview"].items():
        verbs = names.split()
        lines += ["", title, f"  keras-bert {VERBS[verbs[0]]['examples'][0]}"]
        lines += [f"    {verb:<12}  {VERBS[verb]['help']}" for verb in verbs]
    more = ["", "keras-bert VERB --help explains a verb, and keras-bert --version prints the version.", ""]
    return "\n".join([*lines, *more])


def help_of(parser: Any, everything: bool) -> str:
    """The help of a verb: what it does, a command that runs, its arguments and its options.

    Args:
        parser: a `Parser` with the options of the verb.
        everything: all options, in groups, and all examples, instead of those options that most need.
    """
    first, *further = parser.declared["examples"]
    usage = f"usage: {parser.usage}".replace("%%", "%")
    text = [f"{sentence_of(parser.declared)}\n  keras-bert {first}\n\n{usage}\n\n"]
    titles = {group.title: group._group_actions for group in parser._action_groups}
    if not everything:
        options = [action for actions in titles.values() for action in actions if action.option_strings]
        common = [option for option in options if is_common(option, parser.declared)]
        titles = {parser._positionals.title: parser._positionals._group_actions, "options": common}
    formatter = parser._get_formatter()
    for title, actions in titles.items():
        formatter.start_section(title)
        formatter.add_arguments(actions)
        formatter.end_section()
    text.append(formatter.format_help())
    if not everything:
        count = sum(action.option_strings != [] for action in parser._actions)
        more = " and more examples" if further else ""
        text.append(f"\n{parser.prog} --help-all shows all {count} options{more}.\n")
    elif further:
        text.append("".join(["\nmore examples:\n", *(f"  keras-bert {line}\n" for line in further)]))
    return "".join(text)


def sentence_of(declared: Mapping[str, Any]) -> str:
    """What a verb does, as a sentence."""
    return f"{declared['help'][0].upper()}{declared['help'][1:]}."


def is_common(action: argparse.Action, declared: Mapping[str, Any]) -> bool:
    """Whether a short help shows an option: one that the verb requires or lists; if it lists none, all but some."""
    names = {name.removeprefix("--") for name in action.option_strings}
    if "common" in declared:
        return action.required or not names.isdisjoint(declared["common"].split())
    return names.isdisjoint(TABLE["further"].split())


class Help(argparse.HelpFormatter):
    """Help with room for the names of options."""

    def __init__(self, prog, **options):
        super().__init__(prog, max_help_position=30, **options)
