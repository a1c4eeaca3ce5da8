"""`keras-bert explain`: where the parameters and the work of a model are, and what changes from one to another."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import refuse_together
from keras_bert_rebuild.config import HEADS

FORMATS = ("table", "markdown", "json")


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "path",
        nargs="?",
        help="a released model such as bert-base-uncased, a config.json, or a folder or file that from_pretrained reads; without "
        "it the BERT-base of the article",
    )
    parser.add_argument("other", nargs="?", help="a second model, to show what changes from the first to it, step by step")
    parser.add_argument("--heads", help=f"heads of a config, separated by commas: some of {', '.join(HEADS)}, or none")
    parser.add_argument("--batch", type=int, help="texts of a batch, for operations and activations (1)")
    parser.add_argument("--length", type=int, help="tokens of a text (as many as the model takes; of two, as many as both take)")
    parser.add_argument("--predictions", type=int, help="tokens of a text whose word is predicted (all)")
    parser.add_argument("--dtype", help="dtype policy to count bytes for, such as mixed_bfloat16 (float32)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print it (table)")
    parser.add_argument(
        "--names",
        choices=("huggingface", "google"),
        help="print the name and shape of every weight in another library's files next to ours",
    )


def run(args):
    """Print the explanation, the comparison or the names, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.explain import comparison_formats, explain_formats, explain_table, names_table
    from keras_bert_rebuild.explain.comparison import compare_given
    from keras_bert_rebuild.explain.explanation import explain
    from keras_bert_rebuild.explain.weight_names import weight_names

    refuse_together(args, *(("names", other) for other in ("batch", "length", "predictions", "dtype")))
    if args.names is not None and args.other is not None:
        raise ValueError("--names is for one model; leave the second one out.")
    args.batch = 1 if args.batch is None else args.batch
    given = [_given(path, args.heads) for path in ((args.path,) if args.other is None else (args.path, args.other))]
    options = {name: getattr(args, name) for name in ("batch", "length", "predictions", "dtype")}
    if args.other is not None:
        show = compare_given(given, [_name(path) for path in (args.path, args.other)], **options)
        makers = comparison_formats.as_tables, comparison_formats.as_markdown, comparison_formats.as_json
    elif args.names is not None:
        explanation = explain(*given[0], **options)
        show = weight_names(explanation.config, explanation.heads, args.names)
        makers = names_table.names_as_table, names_table.names_as_markdown, names_table.names_as_json
    else:
        show = explain(*given[0], **options)
        makers = explain_table.as_tables, explain_formats.as_markdown, explain_formats.as_json
    console = Console()
    if args.format == "table":
        console.print(makers[0](show, console.width))
    else:
        print(makers[FORMATS.index(args.format)](show), end="")
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
    """What a model is called: a released name, or the last parts of its path."""
    return "/".join(Path(path).parts[-2:])
