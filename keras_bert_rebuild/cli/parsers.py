"""The parser of the command, of the standard library alone: short usage, one sentence for a mistake, groups and examples."""

import argparse
import difflib
import re
import sys

MORE = "keras-bert VERB --help explains the options of a verb, with examples."


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one sentence, with what was probably meant."""

    def parse_known_args(self, args=None, namespace=None):
        """Parse, but report an unknown option before anything that is missing: it may be what is missing, misspelled."""
        for word in sys.argv[1:] if args is None else args:
            if word == "--" or (not word.startswith("-") and self._subparsers is not None):
                break
            if word.startswith("--") and not any(known.startswith(word.partition("=")[0]) for known in self._option_string_actions):
                self.error(f"unrecognized arguments: {word}")
        return super().parse_known_args(args, namespace)

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
            verbs = next(action.choices for action in self._actions if action.dest == "verb")
            return f"there is no verb {verb[1]}{self._hint(verb[1].strip(chr(39)), verbs)} (see {self.prog} --help)."
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


class Flag(argparse.Action):
    """Options without a value: the first is yes, all others are no."""

    def __init__(self, option_strings, dest, **options):
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, option_string == self.option_strings[0])


class OneOf:
    """The type of an option with choices: underscores and hyphens are the same."""

    def __init__(self, choices):
        self.spelled = {_plain(choice): choice for choice in choices}

    def __call__(self, text):
        """The choice that is meant, or the text."""
        return self.spelled.get(_plain(text), text)


def _plain(word):
    return word.replace("_", "-").lower()


def add_verb(verbs, verb, help, **options):
    """A parser for a verb, to which options are added."""
    return verbs.add_parser(verb, help=help, description=f"{help[0].upper()}{help[1:]}.", formatter_class=Help, **options)


def finish(parser, examples):
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
