"""`keras-bert export`: a model for TensorFlow Serving, ONNX Runtime, OpenVINO or transformers."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing
from keras_bert_rebuild.cli.said import begin, counted
from keras_bert_rebuild.cli.shared_options import add_embedding_options, add_max_seq_length, add_model, add_tokenizer
from keras_bert_rebuild.files.kinds import EXPORT, MODEL
from keras_bert_rebuild.files.output import claimed_folder

FORMATS = ("saved_model", "onnx", "openvino", "openvino_int8", "huggingface")


# The files of a search that is done before and after the loss of precision.
EVALUATION = {
    "queries": "queries to compare nDCG@10 of float32 and int8 on, .jsonl in BEIR's format or .tsv",
    "corpus": "documents of that comparison, .jsonl in BEIR's format or .tsv",
    "qrels": "relevance judgements of that comparison, in TREC's or BEIR's format",
}


def add_arguments(parser):
    """Declare the options."""
    add_model(parser, "also of sentence-transformers")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder to write")
    parser.add_argument("--format", default="saved_model", choices=FORMATS, help="format to write (default: saved_model)")
    parser.add_argument(
        "--heads",
        metavar="HEAD,...",
        help="heads to export, separated by commas, or none for the encoder alone (default: all heads)",
    )
    add_embedding_options(
        parser, "the heads are exported, unless the model makes vectors", "to export vectors instead of the heads: "
    )
    add_tokenizer(parser)
    add_max_seq_length(parser)
    parser.add_argument(
        "--calibrate",
        type=existing,
        metavar="FILE",
        help="for openvino_int8, required: typical texts, one per line (for a reranker: query, tab, text)",
    )
    for name, what in EVALUATION.items():
        parser.add_argument(f"--{name}", type=existing, metavar="FILE", help=f"for openvino_int8: {what} (default: no evaluation)")
    add_overwrite(parser, "the export")


def run(args):
    """Export, print what was written and return the exit code."""
    args.model = Path(args.model)
    if args.format == "openvino_int8" and args.calibrate is None:
        raise ValueError("--format openvino_int8 needs typical texts for calibration: add --calibrate FILE.")
    if args.format != "openvino_int8" and args.calibrate is not None:
        raise ValueError(f"--calibrate is only for --format openvino_int8; the format is {args.format}.")
    if args.heads is not None and args.pooling:
        raise ValueError(f"--heads and --pooling exclude each other; got --heads {args.heads} and --pooling {args.pooling}.")
    if args.format == "huggingface" and (args.pooling or args.normalize):
        given = "--pooling" if args.pooling else "--normalize"
        raise ValueError(f"{given} belongs to formats that give vectors; a Hugging Face folder holds none.")
    if args.normalize and args.heads is not None:
        raise ValueError(f"--normalize is for vectors, and --heads {args.heads} for heads: leave one of them out.")
    given = [name for name in EVALUATION if getattr(args, name) is not None]
    if given and (args.format != "openvino_int8" or len(given) < len(EVALUATION)):
        raise ValueError(f"--{', --'.join(EVALUATION)} belong together, and to --format openvino_int8; got --{', --'.join(given)}.")
    kind = MODEL if args.format == "huggingface" else EXPORT
    inputs = [args.model, args.tokenizer, args.calibrate, *(getattr(args, name) for name in EVALUATION)]
    with claimed_folder(args.output, kind, inputs, args.overwrite):
        begin("loading", args.model)
        path = _export(args)
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        print(f"wrote    {file}  {counted(file.stat().st_size, 'byte')}")
    if args.format == "openvino_int8":
        _print_quality(path)
    return 0


def _print_quality(path):
    """Print what int8 lost, if the folder says it."""
    from keras_bert_rebuild.export.runtimes import SETTINGS
    from keras_bert_rebuild.pretrained.config_files import read_json

    for name, value in read_json(path / SETTINGS, "the settings of an exported model").get("quality", {}).items():
        shown = ", ".join(f"{which} {number:.4f}" for which, number in value.items()) if isinstance(value, dict) else f"{value:,}"
        print(f"quality  {name}: {shown}")


def _export(args):
    """Read the model and write the folder."""
    from keras_bert_rebuild.cli.embed import lines_of_file
    from keras_bert_rebuild.export.evaluation import Evaluation
    from keras_bert_rebuild.export.export_model import export
    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    options: dict = {
        "max_len": args.max_seq_length,
        "texts": None if args.calibrate is None else list(lines_of_file(args.calibrate)),
    }
    if args.queries is not None:
        options["evaluation"] = Evaluation.read(args.queries, args.corpus, args.qrels)
    retriever = read_retriever_folder(args.model) if args.model.is_dir() and args.format != "huggingface" else None
    task = _task(args, retriever) if args.format != "huggingface" and args.heads is None else None
    if task is not None:
        return export(task, None, args.output, args.format, prompt=args.prompt, **options)
    heads = None if args.heads is None else [name for name in args.heads.split(",") if name and name != "none"]
    folder = args.model if retriever is None else retriever.folder  # heads instead of what the folder is for
    model = from_pretrained(folder, heads=heads)
    tokenizer = load_tokenizer(args.tokenizer or folder)
    return export(model, tokenizer, args.output, args.format, normalize=bool(args.normalize), prompt=args.prompt, **options)


def _task(args, retriever):
    """The task that searches with the model, or whose vectors are asked for; None if the heads of the model answer."""
    from keras_bert_rebuild.pretrained.retriever_folder import READERS
    from keras_bert_rebuild.tasks.embedding_model import POOLINGS
    from keras_bert_rebuild.tasks.saved_task import load_embedder, load_task, saved_kind

    poolings = tuple(args.pooling.split(",")) if args.pooling else None
    if not set(poolings or ()) <= set(POOLINGS):
        raise ValueError(f"--pooling must be some of {', '.join(POOLINGS)}, separated by commas; got {args.pooling!r}.")
    kind = saved_kind(args.model) if retriever is None else retriever.kind
    if poolings or kind == "embedding":
        return load_embedder(args.model, args.tokenizer, poolings=poolings, normalize=args.normalize, max_len=args.max_seq_length)
    return load_task(args.model, tokenizer=args.tokenizer) if kind in READERS else None
