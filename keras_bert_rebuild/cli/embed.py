"""`keras-bert embed`: a vector for every line of a file."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive
from keras_bert_rebuild.files.kinds import VECTORS
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("file", type=Path, help="a text file, plain, .gz or .xz, one text per line")
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        help="a folder or file that from_pretrained reads, also one of sentence-transformers or of keras-bert export for OpenVINO",
    )
    parser.add_argument("--output", type=Path, required=True, help="the file to write: .npy, or .parquet with the texts")
    parser.add_argument(
        "--pooling", help="cls, max, mean, or several separated by commas (that of a sentence-transformers folder, or mean)"
    )
    parser.add_argument("--normalize", action="store_true", default=None, help="scale vectors to length 1")
    parser.add_argument("--tokenizer", type=Path, help="folder or file of the tokenizer, if it is not in the model's folder")
    parser.add_argument("--max-len", type=positive, help="tokens to cut texts to")
    parser.add_argument("--dtype", help="dtype policy to compute in, such as mixed_bfloat16")
    add_overwrite(parser, "the vectors")


def run(args):
    """Embed the lines and return the exit code."""
    with claimed_file(args.output, VECTORS, [args.file, args.model, args.tokenizer], args.overwrite):
        return _embed(args)


def _embed(args):
    from keras_bert_rebuild.cli.embedding_files import count_lines, lines_of_file, written_vectors

    if not args.file.is_file():
        raise ValueError(f"expected a file of texts; {args.file} is not a file.")
    count = count_lines(args.file)
    if not count:
        raise ValueError(f"the texts must be the lines of a file; {args.file} has none.")

    from rich.console import Console

    from keras_bert_rebuild.cli.progress import progress_bar

    with written_vectors(args.output, count) as write:
        stream = _stream(args)
        with progress_bar(Console(stderr=True)) as bar:
            task = bar.add_task("embedding", total=count, unit="texts", note="")
            for text, vector in zip(lines_of_file(args.file), stream.stream(lines_of_file(args.file)), strict=True):
                width = write(text, vector)
                bar.advance(task)
    print(f"wrote    {args.output}  {count:,} vectors of {width}, float32")
    return 0


def _stream(args):
    """The `EmbeddingStream` of the model at `--model`."""
    from keras_bert_rebuild.export.export_model import SETTINGS
    from keras_bert_rebuild.tasks.embedding_model import POOLINGS
    from keras_bert_rebuild.tasks.embedding_stream import EmbeddingStream

    if (args.model / SETTINGS).is_file():
        from keras_bert_rebuild.export.openvino_runner import OpenVINORunner

        given = [name for name in ("pooling", "normalize", "tokenizer", "dtype") if getattr(args, name) is not None]
        if given:
            raise ValueError(f"{args.model} was exported with its settings: --{', --'.join(given)} cannot be chosen.")
        runner = OpenVINORunner(args.model)
        if not runner.gives_vectors:
            raise ValueError(f"{args.model} must give one vector per text: export it with --pooling mean.")
        if (args.max_len or 0) > runner.max_len:
            raise ValueError(f"--max-len must be at most {runner.max_len}, as {args.model} was exported; got {args.max_len}.")
        return EmbeddingStream(runner, runner.tokenizer, args.max_len or runner.max_len)

    from keras_bert_rebuild.pretrained import from_pretrained
    from keras_bert_rebuild.pretrained.sentence_transformers_folder import check_case, read_sentence_pooling
    from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

    sentence = read_sentence_pooling(args.model)
    poolings = tuple(args.pooling.split(",")) if args.pooling else sentence.poolings if sentence else ("mean",)
    if not set(poolings) <= set(POOLINGS):
        raise ValueError(f"--pooling must be some of {', '.join(POOLINGS)}, separated by commas; got {args.pooling!r}.")
    if args.pooling and sentence and sentence.modules:
        raise ValueError(f"{args.model} has layers after its own pooling: --pooling cannot be chosen; got {args.pooling!r}.")
    folder = sentence.folder if sentence else args.model
    tokenizer = load_tokenizer(args.tokenizer or folder)
    check_case(sentence, tokenizer)
    model = from_pretrained(folder, heads=(), dtype=args.dtype)
    return EmbeddingStream.of_model(
        model,
        tokenizer,
        poolings,
        bool(sentence.normalize if args.normalize is None and sentence else args.normalize),
        args.max_len or (sentence.max_len if sentence else None),
        sentence.modules if sentence else (),
        prompt=sentence.prompt if sentence else "",
    )
