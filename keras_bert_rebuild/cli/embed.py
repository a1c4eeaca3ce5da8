"""`keras-bert embed`: a vector for every line of a file."""

import contextlib
from pathlib import Path

import numpy as np

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive
from keras_bert_rebuild.data.text_files import opened
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.kinds import VECTORS
from keras_bert_rebuild.files.output import check_file, claimed_file


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
        "--pooling",
        help="cls, max, mean, mean_sqrt_len, weightedmean, lasttoken, or several separated by commas (that of a folder of "
        "sentence-transformers, or mean)",
    )
    parser.add_argument(
        "--prompt",
        metavar="NAME|TEXT",
        help="the name of a prompt of the folder, such as query, or a text to put before every line (the folder's default prompt)",
    )
    parser.add_argument("--normalize", action="store_true", default=None, help="scale vectors to length 1")
    parser.add_argument("--tokenizer", type=Path, help="folder or file of the tokenizer, if it is not in the model's folder")
    parser.add_argument("--max-len", type=positive, help="tokens to cut texts to")
    parser.add_argument("--dtype", help="dtype policy to compute in, such as mixed_bfloat16; the vectors are float32 with any")
    parser.add_argument(
        "--batch-tokens", type=positive, metavar="N", help="tokens in a batch, padding included (2048; on an accelerator 16384)"
    )
    add_overwrite(parser, "the vectors")
    add_device_options(parser)


def run(args):
    """Embed the lines and return the exit code."""
    with claimed_file(args.output, VECTORS, [args.file, args.model, args.tokenizer], args.overwrite):
        return _embed(args)


def _embed(args):

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
            for text, vector in zip(lines_of_file(args.file), stream(lines_of_file(args.file)), strict=True):
                width = write(text, vector)
                bar.advance(task)
    print(f"wrote    {args.output}  {count:,} vectors of {width}, float32")
    return 0


def _stream(args):
    """The function from texts to vectors of the model at `--model`."""
    from keras_bert_rebuild.export.runtimes import SETTINGS
    from keras_bert_rebuild.tasks.embedding_model import POOLINGS
    from keras_bert_rebuild.tasks.embedding_stream import BATCH_TOKENS, EmbeddingStream

    if (args.model / SETTINGS).is_file():
        from keras_bert_rebuild.export.openvino import OpenVINORunner

        given = [name for name in ("pooling", "normalize", "tokenizer", "dtype") if getattr(args, name) is not None]
        if given:
            raise ValueError(f"{args.model} was exported with its settings: --{', --'.join(given)} cannot be chosen.")
        runner = OpenVINORunner(args.model)
        if not runner.gives_vectors:
            raise ValueError(f"{args.model} must give one vector per text: export it with --pooling mean.")
        if (args.max_len or 0) > runner.max_len:
            raise ValueError(f"--max-len must be at most {runner.max_len}, as {args.model} was exported; got {args.max_len}.")
        return EmbeddingStream(
            runner,
            runner.tokenizer,
            args.max_len or runner.max_len,
            batch_tokens=args.batch_tokens or BATCH_TOKENS,
            prompt=runner.prompt(args.prompt),
        ).stream

    from keras_bert_rebuild.tasks.load_embedder import load_embedder

    poolings = tuple(args.pooling.split(",")) if args.pooling else None
    if not set(poolings or ()) <= set(POOLINGS):
        raise ValueError(f"--pooling must be some of {', '.join(POOLINGS)}, separated by commas; got {args.pooling!r}.")
    embedder = load_embedder(
        args.model, args.tokenizer, poolings=poolings, normalize=args.normalize, max_len=args.max_len, dtype=args.dtype
    )
    return lambda texts: embedder.stream(texts, args.prompt, args.batch_tokens)


# Vectors per row group of a parquet file.
GROUP = 8192


def lines_of_file(path):
    """Yield the lines of a file as texts, without their ends; an empty line is an empty text."""
    with opened(path) as (stream, _):
        for number, line in enumerate(stream, 1):
            try:
                yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"the texts must be UTF-8; line {number} of {path} is not.") from None


def count_lines(path):
    """The number of lines of a file."""
    with opened(path) as (stream, _):
        return sum(1 for _ in stream)


@contextlib.contextmanager
def written_vectors(path, count):
    """Write vectors to a file, atomically.

    Args:
        path: ends in .npy, for an array `(count, width)`, or in .parquet, for the columns `text` and `vector`.
        count: the number of vectors.

    Yields:
        A function of a text and its vector, to be called in order, which returns the width of the vector.

    Raises:
        ValueError: the suffix is another, the file holds something else, or the package pyarrow is missing for .parquet.
    """
    check_file(path, VECTORS)
    writer = {".npy": _npy_writer, ".parquet": _parquet_writer}[path.suffix.lower()]
    with written_file(path) as file, writer(file, count) as write:
        yield write


@contextlib.contextmanager
def _npy_writer(file, count):
    # Appended, not mapped: pages of a mapped file would count as memory of the process.
    def write(text, vector):
        if file.tell() == 0:
            header = {"descr": "<f4", "fortran_order": False, "shape": (count, len(vector))}
            np.lib.format.write_array_header_1_0(file, header)
        file.write(vector.astype("<f4", copy=False).tobytes())
        return len(vector)

    yield write


@contextlib.contextmanager
def _parquet_writer(file, count):
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ValueError("a .parquet file needs the package pyarrow, which is not installed: pip install pyarrow.") from None
    texts, vectors, writer = [], [], None

    def flush():
        nonlocal writer
        flat = pyarrow.array(np.concatenate(vectors).astype("float32"))
        columns = {
            "text": pyarrow.array(texts, pyarrow.string()),
            "vector": pyarrow.FixedSizeListArray.from_arrays(flat, len(vectors[0])),
        }
        table = pyarrow.table(columns)
        writer = writer or pyarrow.parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
        texts.clear()
        vectors.clear()

    def write(text, vector):
        texts.append(text)
        vectors.append(vector)
        if len(texts) == GROUP:
            flush()
        return len(vector)

    try:
        yield write
        if texts:
            flush()
    finally:
        if writer is not None:
            writer.close()
