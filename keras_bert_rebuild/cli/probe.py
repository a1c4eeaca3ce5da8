"""`keras-bert probe`: what every block of a model knows of some labels."""

import json
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.finetune import Columns
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive, yes_or_no
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import DRAWING
from keras_bert_rebuild.files.output import claimed_file

FORMATS = ("text", "json", "svg")
KINDS = ("classification", "tagging")


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("model", help="a folder or file that from_pretrained reads")
    parser.add_argument("--train", type=Path, required=True, help="examples to fit the probes to: tsv, csv, jsonl, conll or conllu")
    parser.add_argument("--dev", type=Path, required=True, help="examples to measure them on")
    parser.add_argument("--kind", choices=KINDS, help="labels of texts, or tags of words (tagging for conll and conllu)")
    parser.add_argument("--columns", nargs="+", action=Columns, metavar="PART=NAME", help="names of the parts in the files")
    parser.add_argument("--header", type=yes_or_no, metavar="yes|no", help="whether the first row of a table names its columns")
    parser.add_argument("--limit", type=positive, default=2000, metavar="N", help="texts of each file, a random sample (2000)")
    parser.add_argument("--pooling", choices=("mean", "cls"), default="mean", help="the vector of a text (mean)")
    parser.add_argument(
        "--max-len", type=positive, metavar="N", help="tokens to cut texts to (as many as the model takes, at most 512)"
    )
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="rows of a batch (32)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and of the labels of the control task (0)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to show it (text)")
    parser.add_argument("--output", type=Path, help="the SVG file to write, with --format svg")
    parser.add_argument("--tokenizer", type=Path, help="folder or file of the tokenizer, if it is not in the model's folder")
    add_overwrite(parser, "the picture")
    add_device_options(parser)


def run(args):
    """Probe, show the result and return the exit code."""
    if (args.format == "svg") != (args.output is not None):
        raise ValueError("--format svg and --output belong together: a picture is a file, the other formats are printed.")
    if args.output is None:
        _print(_probing(args), args.format)
        return 0
    with claimed_file(args.output, DRAWING, [args.model, args.train, args.dev, args.tokenizer], args.overwrite):
        from keras_bert_rebuild.interpret.block_pictures import draw_probing

        write_text(args.output, draw_probing(_probing(args), Path(args.model).resolve().name))
    print(f"Wrote {args.output}: open it in a browser.")
    return 0


def _probing(args):
    from rich.console import Console

    from keras_bert_rebuild.data.labelled.read_labelled import SUFFIXES, read_examples
    from keras_bert_rebuild.data.text_files import suffix_of
    from keras_bert_rebuild.interpret.probe_blocks import probe, sampled
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    tags = SUFFIXES.get(suffix_of(args.train)) in ("conll", "conllu")
    kind = args.kind or ("tagging" if tags else "classification")
    parts = [
        sampled(read_examples(path, kind, columns=args.columns, header=args.header), args.limit, args.seed)
        for path in (args.train, args.dev)
    ]
    tokenizer, model = load_tokenizer(args.tokenizer or args.model), from_pretrained(args.model)
    options = {"pooling": args.pooling, "max_len": args.max_len, "batch_size": args.batch_size, "seed": args.seed}
    console = Console(stderr=True)
    with console.status("") as status:
        return probe(model, tokenizer, *parts, **options, progress=status.update)


def _print(probing, format):
    if format == "json":
        print(json.dumps(probing.to_json(), ensure_ascii=False))
        return
    from rich.console import Console

    Console().print(probing.to_tables())
