"""`keras-bert cka`: how alike the blocks of a model are, or those of two models."""

import json
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import DRAWING
from keras_bert_rebuild.files.output import claimed_file

FORMATS = ("text", "json", "svg")


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("model", help="a folder or file that from_pretrained reads")
    parser.add_argument("other", nargs="?", help="a second model; without it the blocks of the first are compared with each other")
    parser.add_argument("--texts", type=Path, required=True, help="a file with a text in every line, also .gz or .xz")
    parser.add_argument("--limit", type=positive, default=1000, metavar="N", help="texts of the file, a random sample (1000)")
    parser.add_argument("--pooling", choices=("mean", "cls"), default="mean", help="the vector of a text (mean)")
    parser.add_argument(
        "--max-len", type=positive, metavar="N", help="tokens to cut texts to (as many as the model takes, at most 512)"
    )
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="rows of a batch (32)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to show it (text)")
    parser.add_argument("--output", type=Path, help="the SVG file to write, with --format svg")
    parser.add_argument("--tokenizer", type=Path, help="folder or file of the tokenizer, if it is not in the model's folder")
    parser.add_argument("--other-tokenizer", type=Path, help="that of the second model, if it is not in its folder")
    add_overwrite(parser, "the picture")
    add_device_options(parser)


def run(args):
    """Compare, show the result and return the exit code."""
    if (args.format == "svg") != (args.output is not None):
        raise ValueError("--format svg and --output belong together: a picture is a file, the other formats are printed.")
    if args.other_tokenizer is not None and args.other is None:
        raise ValueError("--other-tokenizer is for a second model; there is one model.")
    if args.output is None:
        _print(_similarity(args), args.format)
        return 0
    with claimed_file(args.output, DRAWING, [args.model, args.other, args.texts, args.tokenizer], args.overwrite):
        from keras_bert_rebuild.interpret.block_pictures import draw_similarity

        names = [Path(path).resolve().name for path in (args.model, args.other) if path is not None]
        shown = (names[0], names[1]) if len(names) > 1 else ("", "")
        write_text(args.output, draw_similarity(_similarity(args), f"CKA of {' and '.join(names)}", shown))
    print(f"Wrote {args.output}: open it in a browser.")
    return 0


def _similarity(args):
    from keras_bert_rebuild.data.labelled.read_labelled import read_examples
    from keras_bert_rebuild.interpret.block_similarity import cka
    from keras_bert_rebuild.interpret.probe_blocks import sampled
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    rows = read_examples(args.texts, "classification", format="txt", labelled=False)
    texts = [example.text for example in sampled(rows, args.limit, args.seed)]
    others = {}
    if args.other is not None:
        others = {"other_tokenizer": load_tokenizer(args.other_tokenizer or args.other), "other": from_pretrained(args.other)}
    tokenizer = load_tokenizer(args.tokenizer or args.model)
    options = {"pooling": args.pooling, "max_len": args.max_len, "batch_size": args.batch_size}
    return cka(from_pretrained(args.model), texts=texts, tokenizer=tokenizer, **others, **options)


def _print(similarity, format):
    if format == "json":
        print(json.dumps(similarity.to_json(), ensure_ascii=False))
        return
    from rich.console import Console

    from keras_bert_rebuild.interpret.similarity_table import similarity_table

    console = Console()
    console.print(similarity_table(similarity, console.width))
