"""`keras-bert why`: which words of a text carried an answer of a model."""

import json
from dataclasses import replace
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing, positive, whole
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.shared_options import add_batch_size, add_top_k
from keras_bert_rebuild.files.kinds import ATTRIBUTIONS
from keras_bert_rebuild.files.output import claimed_file

FORMATS = ("text", "json", "html")

# What has no folder of its own kind: the heads of pretraining.
OF_PRETRAINING = ("fill_mask", "next_sentence")

# Methods, baselines and quantities of `attribute`, written here so that the parser imports nothing.
METHODS = ("integrated-gradients", "gradient-x-input", "rollout", "leave-one-out", "shapley")
BASELINES = ("mask", "pad", "zero")

# Characters of the longest bar.
BAR = 24


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "text", metavar="TEXT", help="text to explain; the query, question or prompt where the task reads two texts"
    )
    parser.add_argument(
        "--model", type=existing, required=True, metavar="PATH", help="fine-tuned model or its run, or a checkpoint with a head"
    )
    parser.add_argument(
        "--pair",
        action="append",
        metavar="TEXT",
        help="second text: of a pair, the document, the passage with the answer, or a choice; repeated for several choices "
        "(default: none)",
    )
    parser.add_argument("--task", metavar="TASK", help="kind of task, fill_mask or next_sentence (default: that of the model)")
    parser.add_argument(
        "--method",
        nargs="+",
        choices=METHODS,
        default=[METHODS[0]],
        metavar="METHOD",
        help=f"attribution methods: {', '.join(METHODS)} (default: {METHODS[0]})",
    )
    parser.add_argument(
        "--target", metavar="TEXT", help="label, tag, choice, answer or word to explain (default: the model's answer)"
    )
    parser.add_argument(
        "--at", metavar="WORD|N", help="word, or its number, whose tag is explained; number of the mask (default: the first)"
    )
    parser.add_argument(
        "--quantity", choices=("logit", "probability"), default="logit", help="output of the model to attribute (default: logit)"
    )
    parser.add_argument("--baseline", choices=BASELINES, default="mask", help="replacement of an absent word (default: mask)")
    parser.add_argument(
        "--integration-steps",
        type=positive,
        dest="steps",
        metavar="N",
        help="integration steps of integrated-gradients (default: 50)",
    )
    parser.add_argument("--samples", type=positive, metavar="N", help="permutations of shapley, an even number (default: 64)")
    parser.add_argument("--seed", type=whole, metavar="N", help="random seed of the permutations (default: 0)")
    add_batch_size(parser)
    add_top_k(parser, 12, "words to show in the terminal")
    parser.add_argument("--format", choices=FORMATS, help="how to print it (default: text), or the format of --output")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write: .html or .json (default: print)")
    add_overwrite(parser, "the file")
    add_device_options(parser)


def run(args):
    """Attribute, show it, and return the exit code."""
    if args.output is None:
        _show(_attributions(args), args.format or "text", args.top_k)
        return 0
    suffix = args.output.suffix.lower()
    written = "json" if suffix == ".json" else "html"
    if args.format is not None and args.format != written and suffix in ATTRIBUTIONS.suffixes:
        raise ValueError(f"--format must be {written} for an output {args.output}; got {args.format}.")
    with claimed_file(args.output, ATTRIBUTIONS, [args.model], args.overwrite):
        from keras_bert_rebuild.files.durable import write_text

        found = _attributions(args)
        write_text(args.output, _as_text(found, written))
    print(f"Wrote {args.output}.")
    return 0


def _attributions(args):
    from keras_bert_rebuild.interpret import attribute

    begin("loading", args.model)
    task, pairs = _task(args), args.pair or []
    target, at = args.target, args.at
    if getattr(task, "kind", None) == "multiple_choice":
        pairs, target = [pairs], int(target) if target is not None and target.isdecimal() else target
    elif len(pairs) > 1:
        raise ValueError(f"--pair may be given several times for multiple choice; got {len(pairs)} for another task.")
    found = []
    for method in args.method:
        (one,) = attribute(
            task,
            [args.text],
            pairs or None,
            method=method,
            target=target,
            at=int(at) if at is not None and at.isdecimal() else at,
            quantity=args.quantity,
            baseline=args.baseline,
            batch_size=args.batch_size,
            **_options(args, method),
        )
        found.append(replace(one, name=args.model.resolve().name))
    return found


def _options(args, method):
    """The settings of a method that were given; those of other methods are theirs."""
    known = {"integrated-gradients": ("steps",), "shapley": ("samples", "seed")}
    given = {name: getattr(args, name) for name in ("steps", "samples", "seed") if getattr(args, name) is not None}
    of_none = [name for name in given if not any(name in known.get(chosen, ()) for chosen in args.method)]
    if of_none:
        option = "integration-steps" if of_none[0] == "steps" else of_none[0]
        raise ValueError(f"--{option} must be left out for {', '.join(args.method)}, which has no such setting.")
    return {name: value for name, value in given.items() if name in known.get(method, ())}


def _task(args):
    from keras_bert_rebuild.interpret.masked_words import load_attributed

    folder = args.model / "model" if (args.model / "settings.yaml").is_file() else args.model
    return load_attributed(folder, args.task, args.text)


def _as_text(found, form):
    if form == "html":
        from keras_bert_rebuild.interpret.attribution_shown import attribution_page

        return attribution_page(found)
    values = json.dumps([one.to_json() for one in found], ensure_ascii=True, separators=(",", ":"))
    return f"{values}\n"


def _show(found, form, top):
    if form != "text":
        print(_as_text(found, form), end="")
        return
    from rich.console import Console

    from keras_bert_rebuild.interpret.attribution_shown import print_attribution

    console = Console()
    for number, attribution in enumerate(found):
        if number:
            console.print()
        print_attribution(console, attribution, top, BAR)
