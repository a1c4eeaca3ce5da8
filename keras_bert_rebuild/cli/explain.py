"""`keras-bert explain`: where the parameters and the work of a model are, and what changes from one to another."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import size_or_path, whole
from keras_bert_rebuild.cli.shared_options import refuse_together
from keras_bert_rebuild.config import HEADS

FORMATS = ("text", "markdown", "json")


def add_arguments(parser):
    """Declare the options."""
    from keras_bert_rebuild.explain.config_at import released

    parser.add_argument(
        "--model",
        type=size_or_path,
        metavar="NAME|PATH",
        help="name of a released model such as bert-base-uncased, a config.json or a checkpoint in any format (default: "
        "the BERT-base of "
        "the article)",
    ).known = tuple(released())
    parser.add_argument(
        "--other", type=size_or_path, metavar="NAME|PATH", help="second model, to show what differs, step by step (default: none)"
    ).known = tuple(released())
    parser.add_argument(
        "--heads",
        metavar="HEAD,...",
        help=f"heads of a config, separated by commas: {', '.join(HEADS)}, or none (default: the config's)",
    )
    parser.add_argument(
        "--batch-size", type=whole, metavar="N", help="texts in a batch, for operations and activations (default: 1)"
    )
    parser.add_argument(
        "--max-seq-length", type=whole, metavar="N", help="sequence length in tokens (default: the maximum of the models)"
    )
    parser.add_argument("--max-predictions", type=whole, metavar="N", help="positions predicted by the MLM head (default: all)")
    parser.add_argument("--dtype", metavar="POLICY", help="precision to count bytes for, such as mixed_bfloat16 (default: float32)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to print it (default: text)")
    parser.add_argument(
        "--names",
        choices=("huggingface", "google"),
        help="list the name and shape of every weight in that library's files, next to ours (default: explain the model)",
    )


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
