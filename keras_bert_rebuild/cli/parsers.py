"""The parser of the command, with the standard library alone: short usage, one sentence for a mistake, groups and examples.

A help and a mistake are answered before Keras is imported, which takes seconds.
"""

import argparse
import difflib
import functools
import re
import sys
from typing import Any

from keras_bert_rebuild.cli.help_text import Help, help_of, overview
from keras_bert_rebuild.cli.option_values import missing_file
from keras_bert_rebuild.cli.options import TABLE, VERBS, options_of
from keras_bert_rebuild.version import __version__

# Title of every option in a help, and its number among those of all titles.
GROUPS = {f"--{name}": (title, i) for title, names in TABLE["groups"].items() for i, name in enumerate(names.split())}
# What people type, by kind (options, verbs, values): from a word to the words here that it may mean.
MEANT: dict[str, dict[str, list[str]]] = {}
for kind, table in TABLE["meant"].items():
    for ours, typed in table.items():
        for typed_word in typed.split():
            MEANT.setdefault(kind, {}).setdefault(typed_word, []).append(ours)


@functools.cache
def make_parser(verbs: tuple[str, ...]) -> argparse.ArgumentParser:
    """The parser of the command with all verbs, and with the options of some of them, which is faster."""
    parser = Parser(prog="keras-bert", formatter_class=Help)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    subs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb, declared in VERBS.items():
        sub = subs.add_parser(verb, formatter_class=Help)
        if verb in verbs:
            sub.add_argument("--help-all", action=HelpAll, help="show all options and exit")
            _declare(sub, verb)
            _arrange(sub)
            _finish(sub, declared)
    return parser


def _declare(parser, verb):
    """Give the parser of a verb its options."""
    either = parser.add_mutually_exclusive_group()
    for name, option in options_of(verb).items():
        where = either if name in VERBS[verb].get("either", ()) else parser
        names, accepts = option.pop("names"), option.pop("accepts", ())
        where.add_argument(*names, **option).accepts = accepts


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb."""
    verbs: Any = next(action.choices for action in make_parser((verb,))._actions if action.dest == "verb")
    return verbs[verb]


def parsed(arguments: list[str] | None = None) -> argparse.Namespace | int:
    """The arguments of a command line; or the exit code, if it asks for the version or has no verb.

    A help and a mistake end the process, as in argparse.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser(tuple(word for word in arguments if word in VERBS))
    args = parser.parse_args(arguments)
    if args.version:
        print(f"keras-bert {__version__}", flush=True)
        return 0
    if args.verb is None:
        parser.print_help(sys.stderr)
        return 2
    return args


def missing(args: argparse.Namespace) -> str | None:
    """A sentence about the first file that parsed arguments name and that is not there, or None."""
    return missing_file(parser_of(args.verb), args)


class Parser(argparse.ArgumentParser):
    """A parser whose help begins with a command that runs, and whose mistakes are one sentence, with what was probably meant.

    Attributes:
        declared: what `options.toml` says of the verb; None for the command itself, and for verbs whose options are not needed.
    """

    declared: dict[str, Any] | None = None

    def parse_known_args(self, args=None, namespace=None):
        """Parse, but report unknown options before anything that is missing: they may be what is missing, misspelled."""
        words = list(sys.argv[1:] if args is None else args)
        unknown = []
        for i, word in enumerate(words):
            if word == "--" or (not word.startswith("-") and self._subparsers is not None):
                break
            if re.match("--?[A-Za-z]", word):
                name, equals, value = word.partition("=")
                words[i] = f"{self._spelled_here(name)}{equals}{value}"
                if not self._has(self._spelled_here(name)):
                    unknown.append(name)
        if unknown:
            self.error(self._unknown_options(unknown))
        return self._with_later_arguments(*super().parse_known_args(words, namespace))

    def _with_later_arguments(self, args, words):
        """Give the words that are left to an argument that may be missing: argparse looks for it only before the first option."""
        for action in self._positionals._group_actions:
            if words and action.nargs in ("?", "*") and getattr(args, action.dest) in (None, []):
                count = 1 if action.nargs == "?" else len(words)
                try:
                    setattr(args, action.dest, self._get_values(action, words[:count]))
                except argparse.ArgumentError as error:
                    self.error(str(error))
                words = words[count:]
        return args, words

    def _spelled_here(self, name):
        """An option as it is called here: hyphens for underscores, and ours for a name of other programs that the verb accepts."""
        accepted = name not in self._option_string_actions and plain(name) in (self.declared or {}).get("spellings", "").split()
        return self._meant(name) if accepted else self._with_hyphens(name)

    def _with_hyphens(self, name):
        """An option whose underscores are hyphens."""
        return name if name in self._option_string_actions else name.replace("_", "-")

    def _has(self, name):
        """Whether an option is one of ours, or the beginning of one that means nothing else."""
        begins = any(option.startswith(name) for option in self._option_string_actions)
        return name in self._option_string_actions or (begins and name.startswith("--") and not self._meant(name))

    def _unknown_options(self, names):
        """A sentence about options that do not exist."""
        if len(names) == 1:
            return f"there is no option {names[0]}{self._hint(names[0])}"
        near = [f"{meant} for {name}" for name in names if (meant := self._nearest(name)) is not None]
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        notes = dict.fromkeys(TABLE["notes"][plain(name)] for name in names if plain(name) in TABLE["notes"])
        return f"there are no options {', '.join(names)}{hint}{''.join(f'; {note}' for note in notes)}"

    def _hint(self, name):
        near, note = self._nearest(name), TABLE["notes"].get(plain(name))
        return f"; did you mean {near}?" if near is not None else "" if note is None else f": {note}"

    def _nearest(self, name):
        """The option that is meant: one that people call so, or else, without a note, one that is spelled alike; or None."""
        options = {plain(option): option for option in self._option_string_actions}  # the hyphens of all are alike
        alike = None if plain(name) in TABLE["notes"] else options.get(nearest(plain(name), options) or "")
        return self._meant(name) or alike

    def _meant(self, name):
        meant = (f"--{ours}" for ours in MEANT["options"].get(plain(name), ()))  # or with a value, such as --dtype mixed_bfloat16
        return next((words for words in meant if words.partition(" ")[0] in self._option_string_actions), None)

    def error(self, message):
        """Print the sentence and end with exit code 2."""
        print(f"{self.prog}: {self._sentence(message)} (see {self.prog} --help).", file=sys.stderr)
        raise SystemExit(2)

    def _sentence(self, message):
        unknown = re.fullmatch(r"unrecognized arguments: (\S+).*", message, re.S)
        if unknown is not None:
            return f"there is one argument too many: {unknown[1]!a}"
        verb = re.match(r"argument VERB: invalid choice: '?(.*?)'? \(choose from", message, re.S)
        if verb is not None:
            return f"there is no verb {verb[1]!a}{meant_word('verbs', verb[1], VERBS)}"
        message = message.replace("the following arguments are required:", "required and missing:")
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message, re.S)
        if wrong is not None:
            hint = meant_word("values", wrong[1], re.findall(r"[\w@.+-]+", wrong[2])).rstrip("?")
            message = message.replace(f"'{wrong[1]}' (choose", f"'{wrong[1]}'{hint} (choose")
        message = message.replace("invalid choice: ", "unknown value ").replace(
            "ignored explicit argument ", "takes no value; got "
        )
        return re.sub(r"^argument ([^:]+): ", lambda option: f"{option[1].partition('/')[0]}: ", message)

    def format_help(self, everything=False):
        """The help: of the command its verbs, of a verb a command that runs and its options, common ones or all."""
        return overview() if self.declared is None else help_of(self, everything)


def nearest(word, words):
    """The one of some words that is spelled most alike, or None."""
    return next(iter(difflib.get_close_matches(word, words, n=1, cutoff=0.6)), None)


def meant_word(kind, word, words):
    """A question about a word that is unknown: one that people use for it, or one that is spelled alike; empty if there is none.

    Args:
        kind: a table of `MEANT`.
        word: what was typed.
        words: what is possible.
    """
    near = next((ours for ours in MEANT[kind].get(plain(word), ()) if ours in words), None) or nearest(plain(word), words)
    return "" if near is None else f"; did you mean {near}?"


class HelpAll(argparse.Action):
    """--help-all: print a help with all options, and end."""

    def __init__(self, option_strings, dest, **options):
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser, namespace, values, option_string=None):
        print(parser.format_help(everything=True), end="")
        parser.exit()


class OneOf:
    """The type of an option with choices: underscores and hyphens are the same."""

    def __init__(self, choices):
        self.spelled = {plain(choice): choice for choice in choices}

    def __call__(self, text):
        """The choice that is meant, or the text."""
        return self.spelled.get(plain(text), text)


def plain(word):
    """An option or a value as it is compared: without its hyphens in front, in lower case, with hyphens for underscores."""
    return word.lstrip("-").replace("_", "-").lower()


def group_of(names):
    """The title of the group of an option and its number there.

    Args:
        names: those of the option, such as `["-h", "--help"]`.
    """
    return next((GROUPS[name] for name in names if name in GROUPS), ("other", -1))


def _arrange(parser):
    """Put the options of a parser into the groups, and the groups in order."""
    options = [action for action in parser._actions if action.option_strings]
    parser._optionals._group_actions.clear()
    for title in TABLE["groups"]:
        here = sorted((a for a in options if group_of(a.option_strings)[0] == title), key=lambda a: group_of(a.option_strings)[1])
        if here:
            parser.add_argument_group(title)._group_actions.extend(here)


def _finish(parser, declared):
    """Complete a parser that has all its options: choices in either spelling, a short usage, and what is declared of the verb."""
    parser.declared = declared
    for action in parser._actions:
        if action.choices is not None and action.type is None:
            action.type = OneOf(action.choices)
    parser._positionals.title = "arguments"
    parser.usage = " ".join([parser.prog, *_needed(parser), "[options]"]).replace("%", "%%")


def _needed(parser):
    """What a command line must have: positional arguments, and options without a default."""
    for action in parser._actions:
        if not action.option_strings:
            yield value_of(action) if action.required else f"[{value_of(action)}]"
    for action in parser._actions:
        if action.option_strings and action.required:
            yield f"{action.option_strings[0]} {value_of(action)}"


def value_of(action):
    """The placeholder for the value of an option in a help."""
    if action.choices and not action.metavar:
        return "|".join(map(str, action.choices))
    name = action.metavar or action.dest.upper()
    return f"{name} ..." if action.nargs in ("+", "*") else name
