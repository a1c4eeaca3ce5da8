"""`keras-bert lens`: what the MLM head says of a text after every block."""

from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.shared_options import (
    add_format,
    add_max_seq_length,
    add_model,
    add_pair,
    add_tokenizer,
    add_top_k,
    check_format,
)
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import PAGE
from keras_bert_rebuild.files.output import claimed_file

FORMATS = ("text", "json", "html")


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "text", metavar="TEXT", help="text with [MASK] in place of the tokens to predict; without a mask, every token is shown"
    )
    add_pair(parser)
    add_model(parser, "with an MLM head")
    parser.add_argument("--truth", metavar="TEXT", help="the text with the right words in place of its masks (default: unknown)")
    add_top_k(parser, 5, "tokens to list, the most probable first")
    add_format(parser, FORMATS, "html")
    add_tokenizer(parser)
    add_max_seq_length(parser)
    add_overwrite(parser, "the page")
    add_device_options(parser)


def run(args):
    """Show what every block says and return the exit code."""
    check_format(args, "html")
    if args.output is None:
        _lens(args).show(args.format)
        return 0
    with claimed_file(args.output, PAGE, [args.model, args.tokenizer], args.overwrite):
        from keras_bert_rebuild.interpret.lens_record import lens_page

        page = lens_page(_lens(args), name=Path(args.model).resolve().name)
        write_text(args.output, page)
    print(f"Wrote {args.output}, {len(page) / 1e6:.1f} MB: open it in a browser.")
    return 0


def _lens(args):
    from keras_bert_rebuild.interpret.lens_of_text import logit_lens
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    begin("loading", args.model)
    tokenizer, model = load_tokenizer(args.tokenizer or args.model), from_pretrained(args.model)
    return logit_lens(model, tokenizer, args.text, args.pair, truth=args.truth, top_k=args.top_k, max_len=args.max_seq_length)
