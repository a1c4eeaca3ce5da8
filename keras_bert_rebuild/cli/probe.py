"""`keras-bert probe`: what every block of a model knows of some labels."""

from keras_bert_rebuild.cli.arguments import check_format, named
from keras_bert_rebuild.cli.progress import begin
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import DRAWING
from keras_bert_rebuild.files.output import claimed_file


def run(args):
    """Probe, show the result and return the exit code."""
    check_format(args, "svg")
    if args.output is None:
        _probing(args).show(args.format)
        return 0
    with claimed_file(args.output, DRAWING, [args.model, args.train, args.dev, args.tokenizer], args.overwrite):
        from keras_bert_rebuild.interpret.probing import draw_probing

        write_text(args.output, draw_probing(_probing(args), named(args.model)))
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
