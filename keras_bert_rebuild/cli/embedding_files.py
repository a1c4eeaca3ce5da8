"""Read texts from a file, and write their vectors to a file, a part at a time."""

import contextlib

import numpy as np

from keras_bert_rebuild.data.corpora.corpus_files import opened
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.kinds import VECTORS
from keras_bert_rebuild.files.output import check_file

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
