"""`keras-bert explain`: where the parameters and the work of a model are."""

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
    parser.add_argument("--heads", help=f"heads of a config, separated by commas: some of {', '.join(HEADS)}, or none")
    parser.add_argument("--batch", type=int, help="texts of a batch, for operations and activations (1)")
    parser.add_argument("--length", type=int, help="tokens of a text (as many as the model takes)")
    parser.add_argument("--predictions", type=int, help="tokens of a text whose word is predicted (all)")
    parser.add_argument("--dtype", help="dtype policy to count bytes for, such as mixed_bfloat16 (float32)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print it (table)")
    parser.add_argument(
        "--names",
        choices=("huggingface", "google"),
        help="print the name and shape of every weight in another library's files next to ours",
    )


def run(args):
    """Print the explanation or the names, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.explain import explain_formats, explain_table, names_table
    from keras_bert_rebuild.explain.config_at import config_at
    from keras_bert_rebuild.explain.explanation import explain
    from keras_bert_rebuild.explain.weight_names import weight_names

    refuse_together(args, *(("names", other) for other in ("batch", "length", "predictions", "dtype")))
    args.batch = 1 if args.batch is None else args.batch
    model_or_config, heads = config_at(args.path)
    if args.heads is not None:
        if heads is None:
            raise ValueError(f"--heads is for a config; {args.path} holds a model, which has its own.")
        heads = [] if args.heads == "none" else [head.strip() for head in args.heads.split(",")]
    options = {name: getattr(args, name) for name in ("batch", "length", "predictions", "dtype")}
    explanation = explain(model_or_config, heads, **options)
    console = Console()
    if args.names is not None:
        rows = weight_names(explanation.config, explanation.heads, args.names)
        show, makers = rows, (names_table.names_as_table, names_table.names_as_markdown, names_table.names_as_json)
    else:
        show, makers = explanation, (explain_table.as_tables, explain_formats.as_markdown, explain_formats.as_json)
    if args.format == "table":
        console.print(makers[0](show, console.width))
    else:
        print(makers[FORMATS.index(args.format)](show), end="")
    return 0
