"""Files of examples as text, plain or compressed, with errors that name the line."""

import contextlib
import gzip
import lzma
import zlib
from pathlib import Path

from keras_bert_rebuild.data.corpora.corpus_files import COMPRESSED
from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.regular import BoundedUnpacking, check_regular

LONGEST_LINE = limit("cell_characters")

# The first bytes of files in other encodings that have a mark.
_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def read_text(path):
    """The text of a file, without a byte order mark.

    Args:
        path: a file in UTF-8, plain, `.gz` or `.xz`.

    Raises:
        ValueError: the file does not exist, is empty, damaged or in another encoding; the error names the byte and the line.
    """
    path = Path(path)
    if not path.exists() or path.is_dir():
        raise ValueError(f"expected a file of examples; {'a folder' if path.is_dir() else 'nothing'} is at {path}.")
    check_regular(path)
    try:
        with contextlib.ExitStack() as opened:
            if path.suffix.lower() in COMPRESSED:
                unpacked = opened.enter_context(COMPRESSED[path.suffix.lower()](path, "rb"))
                file = opened.enter_context(BoundedUnpacking(unpacked, path))
            else:
                file = opened.enter_context(path.open("rb"))
            content = file.read()
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise ValueError(f"expected an intact compressed file; {path} is damaged: {str(error).rstrip('.')}.") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        seems = next((f"; it begins like {name}" for mark, name in _MARKS if content.startswith(mark)), "")
        raise ValueError(f"expected text in UTF-8; {path}, line {line} is not, at byte {error.start} of the file{seems}.") from None
    if not text.strip():
        raise ValueError(f"expected at least one example; {path} is empty.")
    return text


def read_lines(path):
    """The lines of a file, without their ends: line feeds, with or without carriage returns.

    Other characters that Python treats as line ends, such as U+2028, are text.
    """
    lines = read_text(path).removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            check_limit("cell_characters", len(line), location(path, number))
        if line.endswith("\r"):
            lines[number - 1] = line[:-1]
    return lines


def location(path, line):
    """How a line of a file is named in errors."""
    return f"{path}, line {line}"


def suffix_of(path):
    """The last part of the name of a file that tells its format, as in `train.jsonl.xz`."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
