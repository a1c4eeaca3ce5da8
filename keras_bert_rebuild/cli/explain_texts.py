"""`keras-bert why`, `lens` and `explain-text`: which words carried an answer, what every block predicts, and a sparse vector."""

import json
from dataclasses import replace

from keras_bert_rebuild.cli.arguments import check_format, named
from keras_bert_rebuild.cli.progress import begin, counted
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import ATTRIBUTIONS, PAGE
from keras_bert_rebuild.files.output import claimed_file

# Characters of the longest bar.
BAR_OF_WORDS, BAR_OF_VECTOR = 24, 30


def why(args):
    """Attribute, show it, and return the exit code."""
    if args.output is None:
        _show(_attributions(args), args.format or "text", args.top_k)
        return 0
    suffix = args.output.suffix.lower()
    written = "json" if suffix == ".json" else "html"
    if args.format is not None and args.format != written and suffix in ATTRIBUTIONS.suffixes:
        raise ValueError(f"--format must be {written} for an output {args.output}; got {args.format}.")
    with claimed_file(args.output, ATTRIBUTIONS, [args.model], args.overwrite):
        attributions = _attributions(args)
        write_text(args.output, _as_text(attributions, written))
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
    attributions = []
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
        attributions.append(replace(one, name=named(args.model)))
    return attributions


def _options(args, method):
    """The settings of a method on the command line; those of other methods are theirs."""
    settings = {"integrated-gradients": ("steps",), "shapley": ("samples", "seed")}
    values = {name: getattr(args, name) for name in ("steps", "samples", "seed") if getattr(args, name) is not None}
    unused = [name for name in values if not any(name in settings.get(one, ()) for one in args.method)]
    if unused:
        option = "integration-steps" if unused[0] == "steps" else unused[0]
        raise ValueError(f"--{option} must be left out for {', '.join(args.method)}, which has no such setting.")
    return {name: value for name, value in values.items() if name in settings.get(method, ())}


def _task(args):
    from keras_bert_rebuild.interpret.attribute_texts import load_attributed

    return load_attributed(args.model, args.task, args.text)


def _as_text(attributions, form):
    if form == "html":
        from keras_bert_rebuild.interpret.attribution_shown import attribution_page

        return attribution_page(attributions)
    values = json.dumps([one.to_json() for one in attributions], ensure_ascii=True, separators=(",", ":"))
    return f"{values}\n"


def _show(attributions, form, top):
    if form != "text":
        print(_as_text(attributions, form), end="")
        return
    from rich.console import Console

    from keras_bert_rebuild.interpret.attribution_shown import print_attribution

    console = Console()
    for number, attribution in enumerate(attributions):
        if number:
            console.print()
        print_attribution(console, attribution, top, BAR_OF_WORDS)


def lens(args):
    """Show what every block says and return the exit code."""
    check_format(args, "html")
    if args.output is None:
        _lens(args).show(args.format)
        return 0
    with claimed_file(args.output, PAGE, [args.model, args.tokenizer], args.overwrite):
        from keras_bert_rebuild.interpret.lens_record import lens_page

        page = lens_page(_lens(args), name=named(args.model))
        write_text(args.output, page)
    print(f"Wrote {args.output}, {len(page) / 1e6:.1f} MB: open it in a browser.")
    return 0


def _lens(args):
    from keras_bert_rebuild.interpret.lens_of_text import logit_lens
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    begin("loading", args.model)
    tokenizer, model = load_tokenizer(args.tokenizer or args.model), from_pretrained(args.model)
    return logit_lens(model, tokenizer, args.text, args.pair, truth=args.truth, top_k=args.top_k, max_len=args.max_seq_length)


def explain_text(args):
    """Print the words and return the exit code."""
    from keras_bert_rebuild.tasks.saved_task import load_task

    begin("loading", args.model)
    task = load_task(args.model, "sparse_embedding")
    (vector,) = task([args.text], args.prompt)
    own = set(task.tokenizer.tokenize(args.text))
    words = [
        {"word": token, "weight": round(weight, 4), "in_text": token in own} for token, weight in task.tokens_of(vector, args.top_k)
    ]
    if args.format == "json":
        print(json.dumps({"text": args.text, "words": words, "count": len(vector[0])}, indent=2, ensure_ascii=False))
    else:
        _print_words(args.text, words, len(vector[0]))
    return 0


def _print_words(text, words, count):
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (("word", "left"), ("weight", "right"), ("", "left"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=True)
    strongest = words[0]["weight"] if words else 1.0
    for word in words:
        style = "bold" if word["in_text"] else "cyan"
        bar = "█" * max(1, round(BAR_OF_VECTOR * word["weight"] / strongest))
        note = "" if word["in_text"] else "added"
        table.add_row(Text(word["word"], style), f"{word['weight']:.3f}", Text(bar, style), Text(note, "dim"))
    console.print(Text(text, "italic"))
    console.print()
    console.print(table)
    console.print()
    more = f", the strongest {len(words)} shown" if count > len(words) else ""
    added = sum(not word["in_text"] for word in words)
    console.print(f"{counted(count, 'word')} with a weight{more}; {added} of {len(words)} not in the text.")
