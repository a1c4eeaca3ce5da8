"""`keras-bert attention`: which tokens of a text attend to which, as one HTML file."""

from keras_bert_rebuild.cli.arguments import named, run_folder
from keras_bert_rebuild.cli.options import option_of
from keras_bert_rebuild.cli.progress import begin
from keras_bert_rebuild.files.kinds import PAGE
from keras_bert_rebuild.files.output import claimed_file
from keras_bert_rebuild.files.reading import parse_json, read_text


def run(args):
    """Write the page and return the exit code."""
    selection = {name: _numbers(name, getattr(args, name)) for name in ("layers", "heads")}
    _check_together(args)
    inputs = [args.model, args.tokenizer, args.other, args.other_tokenizer]
    with claimed_file(args.output, PAGE, inputs, args.overwrite):
        begin("loading", args.model)
        page = _training(args, selection) if args.checkpoints else _page(args, selection)
        page.save(args.output)
    print(f"Wrote {args.output}, {len(page.html) / 1e6:.1f} MB: open it in a browser.")
    return 0


def _check_together(args):
    """Refuse options that mean nothing together."""
    if args.checkpoints and args.other:
        raise ValueError("--checkpoints and --other cannot be used together: on the page any two checkpoints can be compared.")
    for name in ("why", "lens", "importance"):
        if getattr(args, name) and args.checkpoints:
            raise ValueError(f"--{name} is for one model or two, not for the steps of a training; leave out --checkpoints.")
    for name in ("other_tokenizer", "other_importance"):
        if getattr(args, name) is not None and args.other is None:
            raise ValueError(f"{option_of(name)} is for a second model: add --other, or leave it out.")


def _page(args, selection):
    from keras_bert_rebuild.explain.show_attention import show_attention
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    tokenizer, model = load_tokenizer(args.tokenizer or args.model), from_pretrained(args.model)
    panels = _panels(args, args.model, model, tokenizer, args.importance)
    if args.other:
        other, other_tokenizer = from_pretrained(args.other), load_tokenizer(args.other_tokenizer or args.other)
        selection |= {
            "other": other,
            "other_tokenizer": other_tokenizer,
            "other_name": named(args.other),
            "other_panels": _panels(args, args.other, other, other_tokenizer, args.other_importance),
        }
    own = {
        "attributions": panels.attributions,
        "lens": panels.lens,
        "importance": panels.importance,
        "max_len": args.max_seq_length,
    }
    return show_attention(model, tokenizer, args.text, args.pair, name=named(args.model), **own, **selection)


def _panels(args, path, model, tokenizer, importance):
    """What was asked for besides attention, of one model."""
    from keras_bert_rebuild.explain.page_panels import Panels

    return Panels(
        [_token_scores(args, path)] if args.why else (),
        _lens_rows(args, path, model, tokenizer) if args.lens else None,
        None if importance is None else _importance(importance),
    )


def _token_scores(args, path):
    """The attribution of a task's own answer, as the page shows it."""
    from keras_bert_rebuild.explain.page_panels import TokenScores
    from keras_bert_rebuild.interpret.attribute_texts import attribute
    from keras_bert_rebuild.tasks.saved_task import load_task

    pairs = None if args.pair is None else [args.pair]
    (attribution,) = attribute(load_task(path), [args.text], pairs, method=args.why)
    if any(token.row for token in attribution.tokens):
        raise ValueError("--why is for a text that the task reads at once; this one takes several windows: shorten it.")
    tokens, scores = zip(*((token.token, token.score) for token in attribution.tokens), strict=True)
    return TokenScores(tokens, scores, attribution.method, attribution.target, attribution.value, attribution.value_at_baseline)


def _lens_rows(args, path, model, tokenizer):
    from keras_bert_rebuild.explain.page_panels import LensRows
    from keras_bert_rebuild.interpret.lens_of_text import logit_lens

    if "MLM" not in model.output_names:
        raise ValueError(f"--lens needs a model with an MLM head; the outputs of {path} are {', '.join(model.output_names)}.")
    lens = logit_lens(model, tokenizer, args.text, args.pair, max_len=args.max_seq_length)
    return LensRows(lens.depths, lens.top_tokens, lens.top_probabilities)


def _importance(path):
    """The numbers of a JSON file: lists of lists, alone or as `values`."""
    import numpy as np

    content = parse_json(read_text(path, "json_bytes", "JSON"), path)
    values = content.get("values") if isinstance(content, dict) else content
    try:
        return np.array(values, "float64")
    except (TypeError, ValueError):
        raise ValueError(f"{path} must hold a list for every layer, each with a number for every head.") from None


def _training(args, selection):
    from keras_bert_rebuild.explain.show_attention import show_training
    from keras_bert_rebuild.recipes.pretraining.models_of_run import models_of_run, steps_of_run
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    run = run_folder(args.model)
    steps = steps_of_run(run, args.checkpoints)
    models = models_of_run(run, steps)
    tokenizer = load_tokenizer(args.tokenizer or args.model)
    return show_training(models, tokenizer, args.text, args.pair, max_len=args.max_seq_length, name=named(args.model), **selection)


def _numbers(name, text):
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} must be numbers separated by commas, such as 0,3,11; got {text!r}.") from None
