"""`keras-bert explain` and `probe`: where the parameters and the work of a model are, and what its blocks encode of some labels."""

from pathlib import Path

from keras_bert_rebuild.cli.arguments import check_format, named, refuse_together
from keras_bert_rebuild.cli.progress import begin
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import DRAWING
from keras_bert_rebuild.files.output import claimed_file


def run(args):
    """Print the explanation, the comparison or the names, and return the exit code."""
    from keras_bert_rebuild.explain.comparison import compare_given
    from keras_bert_rebuild.explain.explanation import explain
    from keras_bert_rebuild.explain.weight_names import WeightNames, weight_names

    refuse_together(args, *(("names", other) for other in ("batch_size", "max_seq_length", "max_predictions", "dtype")))
    if args.names is not None and args.other is not None:
        raise ValueError("--names is for one model; leave the second one out.")
    described = [_described(path, args.heads) for path in ((args.model,) if args.other is None else (args.model, args.other))]
    options = {
        "batch": 1 if args.batch_size is None else args.batch_size,
        "length": args.max_seq_length,
        "predictions": args.max_predictions,
        "dtype": args.dtype,
    }
    if args.other is not None:
        record = compare_given(described, [_name(path) for path in (args.model, args.other)], **options)
    else:
        record = explain(*described[0], **options)
        if args.names is not None:
            record = WeightNames(weight_names(record.config, record.heads, args.names))
    record.show(args.format)
    return 0


def _described(path, heads):
    """The config at a path and its heads, those of the option if there is one; or a model and None."""
    from keras_bert_rebuild.explain.config_at import config_at

    model_or_config, own = config_at(path)
    if heads is None:
        return model_or_config, own
    if own is None:
        raise ValueError(f"--heads is for a config; {path} holds a model, which has its own.")
    return model_or_config, [] if heads == "none" else [head.strip() for head in heads.split(",")]


def _name(path):
    """What a model is called: a released name, the last parts of its path, or what is explained by default."""
    return "the article's model" if path is None else "/".join(Path(path).parts[-2:])


def probe(args):
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
