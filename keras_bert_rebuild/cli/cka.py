"""`keras-bert cka`: how alike the blocks of a model are, or those of two models."""

import json
from pathlib import Path

from keras_bert_rebuild.cli.block_options import add_block_options
from keras_bert_rebuild.cli.option_kinds import existing
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.shared_options import add_model, add_other, check_format
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import DRAWING
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    add_model(parser)
    add_other(parser, "second model (default: the blocks of the first are compared with each other)")
    parser.add_argument(
        "--texts", type=existing, required=True, metavar="FILE", help="text file, one text per line, also .gz or .xz"
    )
    add_block_options(parser, 1000, "texts to use", "the sample")


def run(args):
    """Compare, show the result and return the exit code."""
    check_format(args, "svg")
    if args.other_tokenizer is not None and args.other is None:
        raise ValueError("--other-tokenizer is for a second model: add --other, or leave it out.")
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

    rows = [row for row in read_examples(args.texts, "classification", format="txt", labelled=False) if row.text.strip()]
    texts = [example.text for example in sampled(rows, args.limit, args.seed)]
    begin("loading", args.model)
    others = {}
    if args.other is not None:
        others = {"other_tokenizer": load_tokenizer(args.other_tokenizer or args.other), "other": from_pretrained(args.other)}
    tokenizer = load_tokenizer(args.tokenizer or args.model)
    options = {"pooling": args.pooling, "max_len": args.max_seq_length, "batch_size": args.batch_size}
    return cka(from_pretrained(args.model), texts=texts, tokenizer=tokenizer, **others, **options)


def _print(similarity, format):
    if format == "json":
        print(json.dumps(similarity.to_json(), ensure_ascii=False))
        return
    from rich.console import Console

    from keras_bert_rebuild.interpret.similarity_table import similarity_table

    console = Console()
    console.print(similarity_table(similarity, console.width))
