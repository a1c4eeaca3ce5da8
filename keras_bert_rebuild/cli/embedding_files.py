"""Texts from a file, and their vectors into one, a part at a time."""

import contextlib
import os

import numpy as np

from keras_bert_rebuild.data.corpus_files import opened

# Vectors of a group of rows in a parquet file.
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
    """Write vectors to a file, which is there whole in the end or as it was.

    Args:
        path: ends in .npy, for an array `(count, width)`, or in .parquet, for the columns `text` and `vector`.
        count: how many there will be.

    Yields:
        A function of a text and its vector, to be called in their order, which gives the width of the vector.

    Raises:
        ValueError: another end, or no package pyarrow for .parquet.
    """
    kinds = {".npy": _npy_writer, ".parquet": _parquet_writer}
    if path.suffix not in kinds:
        raise ValueError(f"the file to write must end in {' or '.join(kinds)}; got {path.name}.")
    partial = path.with_name(f".{path.name}.writing")
    try:
        with kinds[path.suffix](partial, count) as write:
            yield write
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _npy_writer(path, count):
    # Appended and not mapped: pages of a mapped file would count as memory of the process.
    with path.open("wb") as file:

        def write(text, vector):
            if file.tell() == 0:
                header = {"descr": "<f4", "fortran_order": False, "shape": (count, len(vector))}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(vector.astype("<f4", copy=False).tobytes())
            return len(vector)

        yield write
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _parquet_writer(path, count):
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
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
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
