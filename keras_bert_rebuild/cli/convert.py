"""`keras-bert convert`: convert a checkpoint to another format."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite
from keras_bert_rebuild.files.kinds import MODEL
from keras_bert_rebuild.files.output import claimed_folder
from keras_bert_rebuild.files.printable import printable


def add_arguments(parser):
    """Declare the options."""
    from keras_bert_rebuild.pretrained.save_pretrained import FORMATS

    parser.add_argument("source", type=str, help="a folder or file of any format that from_pretrained reads")
    parser.add_argument("target", type=Path, help="the folder to write; it is written completely or not at all")
    parser.add_argument("--to", choices=FORMATS, required=True, dest="format", help="the format to write")
    parser.add_argument("--config", type=Path, help="the config file, if it is not next to the weights")
    parser.add_argument("--vocabulary", type=Path, help="a vocab.txt, if no tokenizer files are next to the weights")
    parser.add_argument("--dtype", choices=("float32", "float16"), help="type of the arrays; that of the source if not given")
    add_overwrite(parser, "the model")


def run(args):
    """Convert and print what was done; return the exit code."""
    if args.dtype and args.format == "keras":
        raise ValueError(f"--dtype {args.dtype} is for huggingface and google; a Keras file has the type of the model.")
    with claimed_folder(args.target, MODEL, [args.source, args.config, args.vocabulary], args.overwrite):
        report, parameters = _convert(args)
    print(f"read     {printable(report.source)}")
    print(f"loaded   {len(report.loaded)} arrays, {parameters:,} parameters; left out {len(report.unused)}")
    for name in report.unused:
        print(f"         {printable(name)}")
    for file in sorted(args.target.iterdir()):
        print(f"wrote    {printable(file)}  {file.stat().st_size:,} bytes")
    return 0


def _convert(args):
    """Write the target; return the load report and the number of parameters."""
    from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
    from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
    from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained

    dtype = args.dtype or _dtype_of(find_checkpoint(args.source, args.config).source)
    model = from_pretrained(args.source, config=args.config)
    save_pretrained(model, args.target, args.format, vocabulary=args.vocabulary, dtype=dtype)
    return model.load_report, model.count_params()


def _dtype_of(source):
    """float16 if all arrays of a source have it; otherwise None, and the arrays are loaded as float32."""
    kinds = set() if source is None else {source.dtype(name) for name in source.names if source.dtype(name).startswith("float")}
    return "float16" if kinds == {"float16"} else None
