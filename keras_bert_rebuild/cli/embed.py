"""`keras-bert embed`: a vector for every line of a file."""

import contextlib
import itertools
from collections import deque
from pathlib import Path

import numpy as np

from keras_bert_rebuild.cli.arguments import poolings_of, workers_of
from keras_bert_rebuild.cli.progress import Bar, begin, counted
from keras_bert_rebuild.data.corpora.worker_pool import mapped
from keras_bert_rebuild.data.text_files import opened
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.kinds import VECTORS
from keras_bert_rebuild.files.output import check_file, claimed_file
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.tasks.embedding_stream import BATCH_TOKENS, FIRST_TEXTS, EmbeddingStream


def run(args):
    """Embed the lines and return the exit code."""
    args.model = Path(args.model)
    with claimed_file(args.output, VECTORS, [args.file, args.model, args.tokenizer], args.overwrite):
        return _embed(args)


def _embed(args):
    if not args.file.is_file():
        raise ValueError(f"expected a file of texts; {args.file} is not a file.")
    count = count_lines(args.file)
    if not count:
        raise ValueError(f"the texts must be the lines of a file; {args.file} has none.")

    from rich.console import Console

    lines, size = lines_of_file(args.file), min(max(SMALLEST_PART, count // PARTS), LARGEST_PART)
    parts = iter(lambda: list(itertools.islice(lines, size)), [])
    with written_vectors(args.output, count) as write, workers_of(args, with_model=True) as workers:
        begin("loading", args.model)
        first = None if workers == 1 else list(itertools.islice(lines_of_file(args.file), FIRST_TEXTS))
        vectors = itertools.chain.from_iterable(mapped(make_encoder, (args.model, args, first), parts, workers))
        with Bar(Console(stderr=True)) as bar:
            for text, vector in zip(lines_of_file(args.file), vectors, strict=True):
                width = write(text, vector)
                bar("embedding", 1, count)
    print(f"wrote    {args.output}  {counted(count, 'vector')} of {width}, float32")
    return 0


# Texts of one part: they determine the bytes, since the rows of a batch are of one part, whoever computes it.
PARTS, SMALLEST_PART, LARGEST_PART = 64, 4096, 32768


def make_encoder(model, args, first):
    """Make a function from the texts of a part to their vectors.

    Args:
        model: the folder or file of the model.
        args: the arguments of the verb.
        first: the first texts of the file, by which lengths are chosen if another worker may compute the first part; else None.
    """
    return _prepared(_encoder(args), first)


def _prepared(encode, first):
    """A function from texts to vectors that, where programs are compiled for lengths, has chosen these by the first texts."""
    if first and traits.compiles_each_shape():
        deque(encode(first), maxlen=0)
    return encode


def _encoder(args):
    from keras_bert_rebuild.export.runtimes import SETTINGS

    if (args.model / SETTINGS).is_file():
        from keras_bert_rebuild.export.openvino import OpenVINORunner

        options = [name for name in ("pooling", "normalize", "tokenizer", "dtype") if getattr(args, name) is not None]
        if options:
            raise ValueError(f"{args.model} was exported with its settings: --{', --'.join(options)} cannot be chosen.")
        runner = OpenVINORunner(args.model)
        if not runner.gives_vectors:
            raise ValueError(f"{args.model} must give one vector per text: export it with --pooling mean.")
        if (args.max_seq_length or 0) > runner.max_len:
            raise ValueError(
                f"--max-seq-length must be at most {runner.max_len}, as {args.model} was exported; got {args.max_seq_length}."
            )
        return EmbeddingStream(
            runner,
            runner.tokenizer,
            args.max_seq_length or runner.max_len,
            batch_tokens=args.batch_tokens or BATCH_TOKENS,
            prompt=runner.prompt(args.prompt),
        ).stream

    from keras_bert_rebuild.tasks.saved_task import load_embedder

    options = {"normalize": args.normalize, "max_len": args.max_seq_length, "dtype": args.dtype}
    embedder = load_embedder(args.model, args.tokenizer, poolings=poolings_of(args), **options)
    return embedder.text_encoder(args.prompt, args.batch_tokens)


def retriever_of(path):
    """Load a model that makes vectors: as `load_task` reads it, or exported for OpenVINO.

    Args:
        path: a folder of a fine-tuned model or of sentence-transformers, or one of `keras-bert export` for OpenVINO.

    Raises:
        ValueError: the model does not make vectors, or a package is missing.
    """
    from keras_bert_rebuild.export.runtimes import SETTINGS

    path = Path(path)
    if (path / SETTINGS).is_file():
        from keras_bert_rebuild.export.exported_retriever import ExportedRetriever

        return ExportedRetriever.load(path)
    from keras_bert_rebuild.search.retrievers import load_retriever

    return load_retriever(path)


@contextlib.contextmanager
def encoded_by_workers(args, index):
    """The `Encoder` of an index whose vectors the workers of --engine compute; None if it has none, or for this process."""
    with workers_of(args, with_model=True) as workers:

        def vectors_of(blocks):
            ahead = []
            for block in (blocks := iter(blocks)):
                ahead.append(block)
                if block:
                    break
            first = ahead[-1][:FIRST_TEXTS] if ahead else []
            arguments = Path(index.settings.model), args.batch_tokens, first
            yield from mapped(make_document_encoder, arguments, itertools.chain(ahead, blocks), workers)

        yield None if workers == 1 or index.settings.model is None else vectors_of


def make_document_encoder(model, batch_tokens, first):
    """Make a function from the texts of documents to their vectors.

    Args:
        model: the folder of the model.
        batch_tokens: as for `document_encoder`.
        first: the first texts, by which lengths are chosen.
    """
    from keras_bert_rebuild.search.retrievers import document_encoder

    return _prepared(document_encoder(retriever_of(model), batch_tokens), first)


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
