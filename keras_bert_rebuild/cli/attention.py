"""`keras-bert attention`: which tokens of a text attend to which, as one HTML file."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive
from keras_bert_rebuild.files.kinds import PAGE
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("text", help="a text")
    parser.add_argument("pair", nargs="?", help="a second text")
    parser.add_argument("--model", required=True, help="a folder or file that from_pretrained reads")
    parser.add_argument("--output", type=Path, required=True, help="the HTML file to write")
    add_overwrite(parser, "the page")
    parser.add_argument("--tokenizer", type=Path, help="folder or file of the tokenizer, if it is not in the model's folder")
    parser.add_argument("--layers", help="numbers of layers from 0, separated by commas (all, or as many as fit for a long text)")
    parser.add_argument("--heads", help="numbers of heads from 0, separated by commas (all, or as many as fit for a long text)")
    parser.add_argument("--max-len", type=positive, help="tokens to cut the text to")


def run(args):
    """Write the page and return the exit code."""
    chosen = {name: _numbers(name, getattr(args, name)) for name in ("layers", "heads")}
    with claimed_file(args.output, PAGE, [args.model, args.tokenizer], args.overwrite):
        page = _page(args, chosen)
        page.save(args.output)
    print(f"Wrote {args.output}, {len(page.html) / 1e6:.1f} MB: open it in a browser.")
    return 0


def _page(args, chosen):
    from keras_bert_rebuild.explain.show_attention import show_attention
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    tokenizer = load_tokenizer(args.tokenizer or args.model)
    model = from_pretrained(args.model)
    name = Path(args.model).resolve().name
    return show_attention(model, tokenizer, args.text, args.pair, max_len=args.max_len, name=name, **chosen)


def _numbers(name, text):
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} must be numbers separated by commas, such as 0,3,11; got {text!r}.") from None
