"""Options of the verbs that read the vectors of every block of a model and print a table or draw it."""

from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive

FORMATS = ("text", "json", "svg")


def add_block_options(parser, limit, texts, seed):
    """Declare the sample of the texts, their vectors, and what is done with the result.

    Args:
        parser: of the verb.
        limit: the default number of texts of the sample.
        texts: what the texts are, such as "texts of the file".
        seed: what the seed decides.
    """
    parser.add_argument("--limit", type=positive, default=limit, metavar="N", help=f"{texts}, a random sample ({limit})")
    parser.add_argument("--pooling", choices=("mean", "cls"), default="mean", help="the vector of a text (mean)")
    parser.add_argument(
        "--max-len", type=positive, metavar="N", help="tokens to cut texts to (as many as the model takes, at most 512)"
    )
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="rows of a batch (32)")
    parser.add_argument("--seed", type=int, default=0, help=f"{seed} (0)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to show it (text)")
    parser.add_argument("--output", type=Path, help="the SVG file to write, with --format svg")
    parser.add_argument("--tokenizer", type=Path, help="folder or file of the tokenizer, if it is not in the model's folder")
    add_overwrite(parser, "the picture")
    add_device_options(parser)


def check_output(args):
    """Refuse a picture without a file, or a file without a picture."""
    if (args.format == "svg") != (args.output is not None):
        raise ValueError("--format svg and --output belong together: a picture is a file, the other formats are printed.")
