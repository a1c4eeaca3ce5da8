"""`keras-bert explain`: where the parameters and the work of a model are, and what changes from one to another."""

from pathlib import Path

from keras_bert_rebuild.cli.arguments import refuse_together

FORMATS = ("text", "markdown", "json")


def run(args):
    """Print the explanation, the comparison or the names, and return the exit code."""
    from keras_bert_rebuild.explain.comparison import compare_given
    from keras_bert_rebuild.explain.explanation import explain
    from keras_bert_rebuild.explain.weight_names import WeightNames, weight_names

    refuse_together(args, *(("names", other) for other in ("batch_size", "max_seq_length", "max_predictions", "dtype")))
    if args.names is not None and args.other is not None:
        raise ValueError("--names is for one model; leave the second one out.")
    given = [_given(path, args.heads) for path in ((args.model,) if args.other is None else (args.model, args.other))]
    options = {
        "batch": 1 if args.batch_size is None else args.batch_size,
        "length": args.max_seq_length,
        "predictions": args.max_predictions,
        "dtype": args.dtype,
    }
    if args.other is not None:
        found = compare_given(given, [_name(path) for path in (args.model, args.other)], **options)
    else:
        found = explain(*given[0], **options)
        if args.names is not None:
            found = WeightNames(weight_names(found.config, found.heads, args.names))
    found.show(args.format)
    return 0


def _given(path, heads):
    """The config at a path and its heads, those of the option if there is one; or a model and None."""
    from keras_bert_rebuild.explain.config_at import config_at

    model_or_config, own = config_at(path)
    if heads is None:
        return model_or_config, own
    if own is None:
        raise ValueError(f"--heads is for a config; {path} holds a model, which has its own.")
    return model_or_config, [] if heads == "none" else [head.strip() for head in heads.split(",")]


def _name(path):
    """What a model is called: a released name, the last parts of its path, or what is explained by default."""
    return "the article's model" if path is None else "/".join(Path(path).parts[-2:])
