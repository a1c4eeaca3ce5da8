"""`keras-bert convert`: convert a checkpoint to another format."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing
from keras_bert_rebuild.cli.said import begin, counted
from keras_bert_rebuild.cli.shared_options import add_model, vocabulary_file
from keras_bert_rebuild.files.kinds import MODEL
from keras_bert_rebuild.files.output import claimed_folder
from keras_bert_rebuild.files.printable import printable


def add_arguments(parser):
    """Declare the options."""
    from keras_bert_rebuild.pretrained.save_pretrained import FORMATS

    add_model(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder to write, as a whole or not at all")
    parser.add_argument("--format", choices=FORMATS, required=True, help="format to write")
    parser.add_argument("--config", type=existing, metavar="FILE", help="config file of the model (default: next to the weights)")
    parser.add_argument(
        "--tokenizer",
        type=existing,
        metavar="FILE",
        help="vocab.txt to write with the model (default: the tokenizer files of the model)",
    )
    parser.add_argument("--dtype", choices=("float32", "float16"), help="data type of the weights (default: unchanged)")
    add_overwrite(parser, "the model")


def run(args):
    """Convert and print what was done; return the exit code."""
    vocabulary = None if args.tokenizer is None else vocabulary_file(args.tokenizer)
    if args.dtype and args.format == "keras":
        raise ValueError(f"--dtype {args.dtype} is for huggingface and google; a Keras file has the type of the model.")
    with claimed_folder(args.output, MODEL, [args.model, args.config, vocabulary], args.overwrite):
        report, parameters = _convert(args, vocabulary)
    print(f"read     {printable(report.source)}")
    print(f"loaded   {counted(len(report.loaded), 'array')}, {counted(parameters, 'parameter')}; {len(report.unused):,} not used")
    for name in report.unused:
        print(f"         {printable(name)}")
    for file in sorted(args.output.iterdir()):
        print(f"wrote    {printable(file)}  {file.stat().st_size:,} bytes")
    return 0


def _convert(args, vocabulary):
    """Write the target; return the load report and the number of parameters."""
    from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
    from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
    from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained

    begin("loading", args.model)
    dtype = args.dtype or _dtype_of(find_checkpoint(args.model, args.config).source)
    model = from_pretrained(args.model, config=args.config)
    save_pretrained(model, args.output, args.format, vocabulary=vocabulary, dtype=dtype)
    return model.load_report, model.count_params()


def _dtype_of(source):
    """float16 if all arrays of a source have it; otherwise None, and the arrays are loaded as float32."""
    kinds = set() if source is None else {source.dtype(name) for name in source.names if source.dtype(name).startswith("float")}
    return "float16" if kinds == {"float16"} else None
