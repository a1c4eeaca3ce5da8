"""The parser of the command, with the standard library alone: short usage, one sentence for a mistake, groups and examples.

A help and a mistake are answered before Keras is imported, which takes seconds.
"""

import argparse
import difflib
import functools
import re
import sys
from typing import Any

from keras_bert_rebuild.cli.option_values import missing_file
from keras_bert_rebuild.cli.options import TABLE, VERBS, options_of
from keras_bert_rebuild.version import __version__

MORE = "keras-bert VERB --help explains the options of a verb, with examples."

# Title and place in a help of every option.
PLACES = {f"--{name}": (title, place) for title, names in TABLE["groups"].items() for place, name in enumerate(names.split())}


@functools.cache
def make_parser(verbs: tuple[str, ...]) -> argparse.ArgumentParser:
    """The parser of the command with all verbs, and with the options of some of them, which is faster."""
    parser = Parser(prog="keras-bert", description="BERT for Keras 3.", epilog=MORE, formatter_class=Help)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    subs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb, declared in VERBS.items():
        text = declared["help"]
        sub = subs.add_parser(verb, help=text, description=f"{text[0].upper()}{text[1:]}.", formatter_class=Help)
        if verb in verbs:
            _declare(sub, verb)
            _arrange(sub)
            _finish(sub, declared["examples"])
    return parser


def _declare(parser, verb):
    """Give the parser of a verb its options."""
    either = parser.add_mutually_exclusive_group()
    for name, option in options_of(verb).items():
        where = either if name in VERBS[verb].get("either", ()) else parser
        names, known = option.pop("names"), option.pop("known", ())
        where.add_argument(*names, **option).known = known


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
    given = parser.parse_args(arguments)
    if given.version:
        print(f"keras-bert {__version__}", flush=True)
        return 0
    if given.verb is None:
        parser.print_help(sys.stderr)
        return 2
    return given


def missing(given: argparse.Namespace) -> str | None:
    """A sentence about the first file that parsed arguments name and that is not there, or None."""
    return missing_file(parser_of(given.verb), given)


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one sentence, with what was probably meant."""

    def parse_known_args(self, args=None, namespace=None):
        """Parse, but report an unknown option before anything that is missing: it may be what is missing, misspelled."""
        words = list(sys.argv[1:] if args is None else args)
        for place, word in enumerate(words):
            if word == "--" or (not word.startswith("-") and self._subparsers is not None):
                break
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                name = self._name_of(name)
                words[place] = f"{name}{equals}{value}"
                if not any(known.startswith(name) for known in self._option_string_actions):
                    self.error(f"unrecognized arguments: {words[place]}")
        return super().parse_known_args(words, namespace)

    def _name_of(self, name):
        """An option under its own name: underscores are hyphens, and transformers and keras_bert call some otherwise."""
        if name in self._option_string_actions:
            return name
        name = name.replace("_", "-")
        other = TABLE["spellings"].get(name)
        return other if other in self._option_string_actions and name not in self._option_string_actions else name

    def error(self, message):
        """Print the sentence and end with exit code 2."""
        print(f"{self.prog}: {self._sentence(message)}", file=sys.stderr)
        raise SystemExit(2)

    def _sentence(self, message):
        unknown = re.fullmatch(r"unrecognized arguments: (\S+).*", message, re.S)
        if unknown is not None:
            word = unknown[1].partition("=")[0]
            if not word.startswith("-"):
                return f"there is one argument too many: {unknown[1]!a} (see {self.prog} --help)."
            return f"there is no option {word}{self._hint(word, self._option_string_actions)} (see {self.prog} --help)."
        verb = re.match(r"argument VERB: invalid choice: (.*?) \(choose from", message, re.S)
        if verb is not None:
            return f"there is no verb {verb[1]}{self._hint(verb[1].strip(chr(39)), VERBS)} (see {self.prog} --help)."
        message = message.replace("the following arguments are required:", "required and missing:")
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message, re.S)
        if wrong is not None:
            near = self._hint(wrong[1].replace("_", "-"), re.findall(r"[\w@.+-]+", wrong[2])).rstrip("?")
            message = message.replace(f"'{wrong[1]}' (choose", f"'{wrong[1]}'{near} (choose")
        message = message.replace("invalid choice: ", "unknown value ").replace(
            "ignored explicit argument ", "takes no value; got "
        )
        message = re.sub(r"^argument ([^:]+): ", lambda found: f"{found[1].partition('/')[0]}: ", message)
        return f"{message} (see {self.prog} --help)."

    def _hint(self, word, known):
        near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
        return f"; did you mean {near[0]}?" if near else ""


class Help(argparse.HelpFormatter):
    """Help in which examples keep their lines."""

    def __init__(self, prog, **options):
        super().__init__(prog, max_help_position=30, **options)

    def _fill_text(self, text, width, indent):
        if text.startswith("example"):
            return text
        return super()._fill_text(text, width, indent)


class OneOf:
    """The type of an option with choices: underscores and hyphens are the same."""

    def __init__(self, choices):
        self.spelled = {_plain(choice): choice for choice in choices}

    def __call__(self, text):
        """The choice that is meant, or the text."""
        return self.spelled.get(_plain(text), text)


def _plain(word):
    return word.replace("_", "-").lower()


def place_of(names):
    """The title of the group of an option and its place there.

    Args:
        names: those of the option, such as `["-h", "--help"]`.
    """
    return next((PLACES[name] for name in names if name in PLACES), ("other", -1))


def _arrange(parser):
    """Put the options of a parser into the groups, and the groups in order."""
    options = [action for action in parser._actions if action.option_strings]
    parser._optionals._group_actions.clear()
    for title in TABLE["groups"]:
        here = sorted((a for a in options if place_of(a.option_strings)[0] == title), key=lambda a: place_of(a.option_strings)[1])
        if here:
            parser.add_argument_group(title)._group_actions.extend(here)


def _finish(parser, examples):
    """Complete a parser that has all its options: choices in either spelling, a short usage and examples.

    Args:
        parser: a `Parser`.
        examples: command lines, without the name of the command.
    """
    for action in parser._actions:
        if action.choices is not None and action.type is None:
            action.type = OneOf(action.choices)
    parser._positionals.title = "arguments"
    parser.usage = " ".join([parser.prog, *_needed(parser), "[options]"]).replace("%", "%%")
    lines = "".join(f"\n  keras-bert {line}" for line in examples)
    parser.epilog = f"example{'s' if len(examples) > 1 else ''}:{lines}".replace("%", "%%")


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
