"""`keras-bert models`, `inspect`, `convert` and `export`: known checkpoints, what one contains, and a model in another format."""

import json
from pathlib import Path

from keras_bert_rebuild.cli.arguments import poolings_of, vocabulary_file
from keras_bert_rebuild.cli.progress import begin, counted
from keras_bert_rebuild.files.hub import MODELS
from keras_bert_rebuild.files.kinds import EXPORT, MODEL
from keras_bert_rebuild.files.output import claimed_folder
from keras_bert_rebuild.files.printable import printable

# The files of a search that is done before and after the loss of precision.
EVALUATION = ("queries", "corpus", "qrels")


def models(args):
    """Print what is known of models of the hub, and return the exit code."""
    if args.format == "json":
        print(json.dumps(MODELS, indent=2))
        return 0
    rows = [("name", "family", "parameters", "download", "languages", "licence", "for")]
    for repository, model in MODELS.items():
        sizes = f"{model['parameters']:,} M", f"{model['megabytes']:,} MB"
        rows.append((repository, model["family"], *sizes, model["languages"], model["licence"], model["use"]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for name, family, parameters, size, *texts in rows:
        numbers = f"{parameters:>{widths[2]}}  {size:>{widths[3]}}"
        words = "  ".join(f"{word:<{width}}" for word, width in zip(texts, widths[4:], strict=True))
        print(f"{name:<{widths[0]}}  {family:<{widths[1]}}  {numbers}  {words}".rstrip())
    print("\nThe part behind the slash is enough. Other names of the hub are taken, too: user/name, or user/name@revision.")
    return 0


def inspect(args):
    """Print the format, the config and every name, and return the exit code."""
    from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint

    checkpoint = inspect_checkpoint(args.model, args.config)
    if args.format == "json":
        print(json.dumps({**checkpoint, "names": [row._asdict() for row in checkpoint["names"]]}, indent=2, default=str))
        return 0
    _print(checkpoint)
    return 0


def _print(checkpoint):
    names = checkpoint["names"]
    total = sum(row.parameters for row in names if row.path != "-")
    print(f"file        {printable(checkpoint['file'])}")
    print(f"format      {printable(checkpoint['format'])}")
    print(f"family      {printable(checkpoint['family'])}")
    print(f"heads       {', '.join(checkpoint['heads']) or 'none'}")
    print(f"parameters  {total:,} under {sum(row.path != '-' for row in names):,} names")
    print("config      " + "\n            ".join(f"{field} = {_shown(value)}" for field, value in checkpoint["config"].items()))
    print()
    rows = [("name", "shape", "type", "parameters", "our path")]
    rows += [(printable(row.name), str(row.shape), printable(row.dtype), f"{row.parameters:,}", row.path) for row in names]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for name, shape, dtype, parameters, path in rows:
        print(f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {dtype:<{widths[2]}}  {parameters:>{widths[3]}}  {path}")
    unknown = [printable(row.name) for row in names if row.path == "?"]
    print()
    print("Every weight has a variable." if not unknown else f"No variable for {len(unknown)}: {', '.join(unknown[:5])}")


def _shown(value):
    # repr escapes labels; of a million labels nobody reads more than the first.
    return printable(repr(value))


def convert(args):
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
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    begin("loading", args.model)
    dtype = args.dtype or _dtype_of(find_checkpoint(args.model, args.config).source)
    model = from_pretrained(args.model, config=args.config)
    tokens, rows = (0, 0) if vocabulary is None else (len(load_tokenizer(vocabulary)), model.config.vocab_size)
    if tokens > rows:
        raise ValueError(f"--tokenizer must have at most the {rows:,} tokens of the model; {vocabulary} has {tokens:,}.")
    save_pretrained(model, args.output, args.format, vocabulary=vocabulary, dtype=dtype)
    return model.load_report, model.count_params()


def _dtype_of(source):
    """float16 if all arrays of a source have it; otherwise None, and the arrays are loaded as float32."""
    kinds = set() if source is None else {source.dtype(name) for name in source.names if source.dtype(name).startswith("float")}
    return "float16" if kinds == {"float16"} else None


def export(args):
    """Export, print what was written and return the exit code."""
    args.model = Path(args.model)
    if args.format == "openvino_int8" and args.calibrate is None:
        raise ValueError("--format openvino_int8 needs typical texts for calibration: add --calibrate FILE.")
    if args.format != "openvino_int8" and args.calibrate is not None:
        raise ValueError(f"--calibrate is only for --format openvino_int8; the format is {args.format}.")
    if args.heads is not None and args.pooling:
        raise ValueError(f"--heads and --pooling exclude each other; got --heads {args.heads} and --pooling {args.pooling}.")
    if args.format == "huggingface" and (args.pooling or args.normalize):
        option = "--pooling" if args.pooling else "--normalize"
        raise ValueError(f"{option} belongs to formats that give vectors; a Hugging Face folder holds none.")
    if args.normalize and args.heads is not None:
        raise ValueError(f"--normalize is for vectors, and --heads {args.heads} for heads: leave one of them out.")
    options = [name for name in EVALUATION if getattr(args, name) is not None]
    if options and (args.format != "openvino_int8" or len(options) < len(EVALUATION)):
        raise ValueError(
            f"--{', --'.join(EVALUATION)} belong together, and to --format openvino_int8; got --{', --'.join(options)}."
        )
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
    from keras_bert_rebuild.export import export_model
    from keras_bert_rebuild.export.evaluation import Evaluation
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
        return export_model.export(task, None, args.output, args.format, prompt=args.prompt, **options)
    heads = None if args.heads is None else [name for name in args.heads.split(",") if name and name != "none"]
    folder = args.model if retriever is None else retriever.folder  # heads instead of what the folder is for
    model = from_pretrained(folder, heads=heads)
    tokenizer = load_tokenizer(args.tokenizer or folder)
    return export_model.export(
        model, tokenizer, args.output, args.format, normalize=bool(args.normalize), prompt=args.prompt, **options
    )


def _task(args, retriever):
    """The task that searches with the model, or whose vectors are asked for; None if the heads of the model answer."""
    from keras_bert_rebuild.pretrained.retriever_folder import READERS
    from keras_bert_rebuild.tasks.saved_task import load_embedder, load_task, saved_kind

    poolings = poolings_of(args)
    kind = saved_kind(args.model) if retriever is None else retriever.kind
    if poolings or kind == "embedding":
        return load_embedder(args.model, args.tokenizer, poolings=poolings, normalize=args.normalize, max_len=args.max_seq_length)
    return load_task(args.model, tokenizer=args.tokenizer) if kind in READERS else None
