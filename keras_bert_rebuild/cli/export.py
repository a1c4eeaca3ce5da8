"""`keras-bert export`: a model for TensorFlow Serving, ONNX Runtime, OpenVINO or transformers."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive
from keras_bert_rebuild.files.kinds import EXPORT, MODEL
from keras_bert_rebuild.files.output import claimed_folder

FORMATS = ("saved_model", "onnx", "openvino", "openvino_int8", "huggingface")


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("model", type=Path, help="a folder or file that from_pretrained reads, also one of sentence-transformers")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("--format", default="saved_model", choices=FORMATS, help="what to write (saved_model)")
    parser.add_argument("--heads", help="heads to export, separated by commas; none for the encoder only (all of the checkpoint)")
    parser.add_argument("--pooling", help="cls, max, mean, or several separated by commas: one vector per text, without heads")
    parser.add_argument("--normalize", action="store_true", default=None, help="scale vectors to length 1")
    parser.add_argument("--tokenizer", type=Path, help="folder or file of the tokenizer, if it is not in the model's folder")
    parser.add_argument("--max-len", type=positive, help="tokens to cut texts to")
    parser.add_argument(
        "--calibrate", type=Path, metavar="FILE", help="for openvino_int8: texts like those that the model will see, one per line"
    )
    add_overwrite(parser, "the export")


def run(args):
    """Export, print what was written and return the exit code."""
    if (args.format == "openvino_int8") != (args.calibrate is not None):
        raise ValueError(f"--calibrate FILE belongs to --format openvino_int8; got --format {args.format}.")
    if args.heads is not None and args.pooling:
        raise ValueError(f"--heads and --pooling exclude each other; got --heads {args.heads} and --pooling {args.pooling}.")
    if args.format == "huggingface" and (args.pooling or args.normalize):
        given = "--pooling" if args.pooling else "--normalize"
        raise ValueError(f"{given} belongs to formats that give vectors; a Hugging Face folder holds none.")
    if args.normalize and args.heads is not None:
        raise ValueError(f"--normalize is for vectors, and --heads {args.heads} for heads: leave one of them out.")
    kind = MODEL if args.format == "huggingface" else EXPORT
    with claimed_folder(args.output, kind, [args.model, args.tokenizer, args.calibrate], args.overwrite):
        path = _export(args)
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        print(f"wrote    {file}  {file.stat().st_size:,} bytes")
    return 0


def _export(args):
    """Read the model and write the folder."""
    from keras_bert_rebuild.cli.embed import lines_of_file
    from keras_bert_rebuild.export.export_model import export
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.pretrained.sentence_transformers_folder import check_case, read_sentence_pooling
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    sentence = read_sentence_pooling(args.model) if args.model.is_dir() and args.format != "huggingface" else None
    folder = sentence.folder if sentence else args.model
    if sentence and args.heads is None and (sentence.modules or sentence.prompt):
        more = "layers after the pooling" if sentence.modules else "a default prompt"
        raise ValueError(f"{args.model} has {more}, which no export supports: keras-bert embed computes its vectors.")
    if args.heads is not None:  # heads instead of the vectors that the folder is for
        sentence = None
    poolings = tuple(args.pooling.split(",")) if args.pooling else sentence.poolings if sentence else ()
    heads = None if args.heads is None else [name for name in args.heads.split(",") if name and name != "none"]
    tokenizer = load_tokenizer(args.tokenizer or folder)
    check_case(sentence, tokenizer)
    model = from_pretrained(folder, heads=() if poolings else heads)
    return export(
        model,
        tokenizer,
        args.output,
        args.format,
        poolings=poolings,
        normalize=bool(sentence.normalize if args.normalize is None and sentence else args.normalize),
        max_len=args.max_len or (sentence.max_len if sentence else None),
        texts=None if args.calibrate is None else list(lines_of_file(args.calibrate)),
    )
