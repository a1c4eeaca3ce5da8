"""`keras-bert probe`: what every block of a model knows of some labels."""

from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing, positive, whole
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.shared_options import (
    add_batch_size,
    add_format,
    add_max_seq_length,
    add_model,
    add_reading_options,
    add_tokenizer,
    check_format,
)
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import DRAWING
from keras_bert_rebuild.files.output import claimed_file

KINDS = ("classification", "tagging")
FORMATS = ("text", "json", "svg")


def add_arguments(parser):
    """Declare the options."""
    add_model(parser)
    parser.add_argument(
        "--train",
        type=existing,
        required=True,
        metavar="FILE",
        help="examples to fit the probes to: .tsv, .csv, .jsonl, .conll or .conllu",
    )
    parser.add_argument("--dev", type=existing, required=True, metavar="FILE", help="examples to evaluate the probes on")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        help="labels of texts, or tags of words (default: tagging for .conll and .conllu, otherwise classification)",
    )
    add_reading_options(parser, formats=False)
    parser.add_argument(
        "--limit",
        type=positive,
        default=2000,
        metavar="N",
        help="examples of each file, a random sample (default: 2000)",
    )
    parser.add_argument("--pooling", choices=("mean", "cls"), default="mean", help="vector of a text (default: mean)")
    add_max_seq_length(parser)
    add_batch_size(parser)
    parser.add_argument(
        "--seed",
        type=whole,
        default=0,
        metavar="N",
        help="random seed of the sample and of the control task (default: 0)",
    )
    add_format(parser, FORMATS, "svg")
    add_tokenizer(parser)
    add_overwrite(parser, "the picture")
    add_device_options(parser)


def run(args):
    """Probe, show the result and return the exit code."""
    check_format(args, "svg")
    if args.output is None:
        _probing(args).show(args.format)
        return 0
    with claimed_file(args.output, DRAWING, [args.model, args.train, args.dev, args.tokenizer], args.overwrite):
        from keras_bert_rebuild.interpret.probing import draw_probing

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
    begin("loading", args.model)
    tokenizer, model = load_tokenizer(args.tokenizer or args.model), from_pretrained(args.model)
    options = {"pooling": args.pooling, "max_len": args.max_seq_length, "batch_size": args.batch_size, "seed": args.seed}
    console = Console(stderr=True)
    with console.status("") as status:
        return probe(model, tokenizer, *parts, **options, progress=status.update)
