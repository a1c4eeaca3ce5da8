"""Other names of options that are still accepted: those of earlier versions, and those of transformers' scripts.

A command line is rewritten with the names of today before it is parsed, so that helps and errors have these alone.
"""

from collections.abc import Sequence
from typing import Any

# Name before, and today's. A name applies to the verbs that have the one of today and not the one before.
BEFORE = (
    ("--vocab", ("--tokenizer",)),
    ("--vocabulary", ("--tokenizer",)),
    ("--max-len", ("--max-seq-length",)),
    ("--seq-len", ("--max-seq-length",)),
    ("--length", ("--max-seq-length",)),
    ("--batch", ("--batch-size",)),
    ("--predictions", ("--max-predictions",)),
    ("--size", ("--vocab-size",)),
    ("--to", ("--format",)),
    ("--json", ("--format", "json")),
    ("--format", ("--input-format",)),
    ("--top", ("--top-k",)),
    ("--judgements", ("--qrels",)),
    ("--workers", ("--processes",)),
    ("--steps", ("--integration-steps",)),
    ("--evaluate-steps", ("--eval-steps",)),
    ("--evaluation-steps", ("--eval-batches",)),
    ("--warmup", ("--warmup-ratio",)),
    ("--warmup-fraction", ("--warmup-ratio",)),
    ("--config", ("--settings",)),
    ("--data", ("--dev",)),
    ("--measure-on", ("--test",)),
    ("--heads", ("--amount",)),
    ("--layers", ("--num-hidden-layers",)),
    ("--attention-heads", ("--num-attention-heads",)),
)

# Names in the scripts of transformers, and ours.
OF_TRANSFORMERS = (
    ("--model-name-or-path", ("--model",)),
    ("--tokenizer-name", ("--tokenizer",)),
    ("--train-file", ("--train",)),
    ("--validation-file", ("--dev",)),
    ("--test-file", ("--test",)),
    ("--output-dir", ("--output",)),
    ("--overwrite-output-dir", ("--overwrite",)),
    ("--max-length", ("--max-seq-length",)),
    ("--per-device-train-batch-size", ("--batch-size",)),
    ("--num-train-epochs", ("--epochs",)),
    ("--max-steps", ("--steps",)),
    ("--max-grad-norm", ("--clip-norm",)),
    ("--mlm-probability", ("--mask-rate",)),
    ("--logging-steps", ("--log-steps",)),
    ("--save-total-limit", ("--keep-checkpoints",)),
    ("--doc-stride", ("--stride",)),
)

# Arguments that had no name before: those in front of the others where a verb has them, and those after.
IN_FRONT = {
    "inspect": ("--model",),
    "explain": ("--model", "--other"),
    "convert": ("--model", "--output"),
    "export": ("--model",),
    "prune": ("--model",),
    "plan": ("--model",),
    "probe": ("--model",),
    "why": ("--model",),
    "lens": ("--model",),
    "distill": ("--teacher",),
}
AFTER = {"lens": "--pair", "attention": "--pair"}

# Values of an option before, and today's.
VALUES = {("--format", "table"): "text"}

YES, NO = ("yes", "true"), ("no", "false")


def renewed(arguments: Sequence[str], table: dict[str, Any]) -> list[str]:
    """A command line with the names of today.

    Args:
        arguments: those of the command.
        table: all options as plain data, as in `parser.json`.
    """
    arguments = list(arguments)
    verb = next((word for word in arguments if not word.startswith("-")), None)
    if verb is None or verb not in table["verbs"]:
        return arguments
    start = arguments.index(verb) + 1
    found = table["verbs"][verb]["options"]
    options = {name: option for option in found for name in option["names"] if name.startswith("-")}
    words = [word for given in _words(arguments[start:]) for word in _named(given, options)]
    words = _with_values(list(_without_answers(words, options)), options)
    words = _with_names(verb, words, options, [o for o in found if o["names"][0] not in options])
    return arguments[:start] + words


def _words(arguments):
    """The words up to "--", after which nothing is an option, and whether each is one."""
    options = True
    for word in arguments:
        options = options and word != "--"
        yield word, options and word.startswith("--") and len(word) > 2


def _named(given, options):
    """An option under today's name; any other word as it is."""
    word, is_option = given
    name, equals, value = word.partition("=")
    if not is_option or name in options:
        yield word
        return
    name = name.replace("_", "-")
    today = next((new for old, new in (*BEFORE, *OF_TRANSFORMERS) if old == name and new[0] in options), (name,))
    yield f"{today[0]}{equals}{value}"
    yield from today[1:]


def _without_answers(words, options):
    """Flags without the yes or no that they had before."""
    place = 0
    while place < len(words):
        name, equals, answer = words[place].partition("=")
        place += 1
        if options.get(name, {}).get("action") != "flag":
            yield words[place - 1]
            continue
        answer = answer if equals else "".join(words[place : place + 1])
        known = answer.lower() in (*YES, *NO)
        yield options[name]["names"][0 if answer.lower() in YES else -1] if known else words[place - 1]
        place += known and not equals


def _with_values(words, options):
    """Values that an option no longer has, as those of today."""
    known = {pair: value for pair, value in VALUES.items() if pair[1] not in options.get(pair[0], {}).get("choices", ())}
    split = {f"{name}={before}": f"{name}={value}" for (name, before), value in known.items()}
    return [known.get((last, word), split.get(word, word)) for last, word in zip([None, *words], words, strict=False)]


def _with_names(verb, words, options, positional):
    """The arguments that had no name before, with one."""
    places = [place for place, _ in _places(words, options)]
    front = [name for name in IN_FRONT.get(verb, ()) if not _is_given(name, words)]
    needed = sum(option.get("nargs") not in ("?", "*") for option in positional)
    names = dict(zip(places, front[: max(len(places) - needed, 0)], strict=False))
    rest = [place for place in places if place not in names]
    if verb in AFTER and len(rest) > len(positional):
        names[rest[len(positional)]] = AFTER[verb]
    return [part for place, word in enumerate(words) for part in ((names[place], word) if place in names else (word,))]


def _is_given(name, words):
    return any(word == name or word.startswith(f"{name}=") for word in words)


def _places(words, options):
    """Where the words are that are neither an option nor a value of one, as argparse divides them."""
    left = 0
    for place, word in enumerate(words):
        if word == "--":
            return
        if word.startswith("-") and len(word) > 1 and not word[1:].replace(".", "", 1).isdigit():
            name, equals, _ = word.partition("=")
            option = options.get(name) or next((o for known, o in options.items() if known.startswith(name)), {})
            left = 0 if equals else _values(option)
        elif left:
            left -= 1
        else:
            yield place, word


def _values(option):
    """How many values an option takes at most."""
    if option.get("action") in ("flag", "store_true", "store_const", "help") or not option:
        return 0
    nargs = option.get("nargs", 1)
    return {"?": 1, "+": 1 << 30, "*": 1 << 30}.get(nargs, nargs)
