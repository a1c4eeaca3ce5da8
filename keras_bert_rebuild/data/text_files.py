"""Files of texts and examples, plain or compressed: their lines, with errors that name the line."""

import contextlib
import gzip
import io
import lzma
import zlib
from pathlib import Path

from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular

TEXT = (".txt", ".md")
COMPRESSED = {".gz": gzip.open, ".xz": lzma.open}

_BUFFER = 1 << 20


def corpus_files(path):
    """The files of a corpus, sorted by name.

    Args:
        path: a file with any suffix, or a folder, in which and below which all files are used that end in `.txt`, `.md`,
            `.txt.gz`, `.txt.xz`, `.md.gz` or `.md.xz`.

    Returns:
        A list of pairs: the path relative to the corpus, with `/` as separator, and the path.

    Raises:
        ValueError: the path does not exist.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"the corpus must be a text file or a folder of text files; {path} does not exist.")
    if not path.is_dir():
        return [(path.name, path)]
    files = sorted((file.relative_to(path).parts, file) for file in path.rglob("*") if _is_text(file) and file.is_file())
    return [("/".join(parts), file) for parts, file in files]


@contextlib.contextmanager
def opened(path, wanted="the corpus must have intact files"):
    """Open a file, decompressed according to its suffix.

    Args:
        path: a `Path`.
        wanted: the beginning of the error for a damaged file.

    Yields:
        `(stream, position)`: a buffered stream of the decompressed bytes, and a function that returns how many bytes of the file
        were read so far.

    Raises:
        ValueError: it is not a file, or it is a compressed file that is damaged or decompresses to many times its size.
    """
    decompress = COMPRESSED.get(path.suffix.lower())
    check_regular(path)
    with open(path, "rb", buffering=_BUFFER if decompress is None else 1 << 16) as file:
        if decompress is None:
            yield file, file.tell
            return
        try:
            with io.BufferedReader(BoundedUnpacking(decompress(file), path), _BUFFER) as stream:
                yield stream, file.tell
        except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
            raise ValueError(f"{wanted}; {path} is damaged: {str(error).rstrip('.')}.") from None


def stream_lines(path):
    """Yield `(number, line)` for every line of a file of any size, with its line end and without a byte order mark.

    Args:
        path: a `Path` of a file in UTF-8, plain, `.gz` or `.xz`.

    Raises:
        ValueError: the file is damaged or in another encoding, or a line is too long; the error names the line.
    """
    with opened(path, "expected an intact compressed file") as (stream, _):
        number = 0
        while content := stream.readline(4 * LONGEST_LINE + 2):
            number += 1
            try:
                line = content.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                where = location(printable(path), number)
                raise ValueError(f"expected text in UTF-8; {where} is not, at byte {error.start}.") from None
            if len(line) > LONGEST_LINE:
                check_limit("cell_characters", len(line.rstrip("\r\n")), location(printable(path), number))
            yield number, line


def lines_of(stream, line_bytes):
    """Split bytes into lines, and long lines into pieces.

    Args:
        stream: a buffered reader.
        line_bytes: a longer line is split after a space in its second half, or between characters if there is none.

    Yields:
        `(number, offset, piece, continued, cut)`: number of the line from 1, offset in bytes, the bytes with their line end,
        whether the piece continues the line of the previous piece, and whether the next piece continues this line.
    """
    number = offset = 0
    rest, continued = b"", False
    while piece := rest + stream.readline(line_bytes - len(rest)):
        number += not continued
        rest = b""
        cut = len(piece) >= line_bytes and piece[-1] != 10
        if cut:
            end = _cut_offset(piece)
            piece, rest = piece[:end], piece[end:]
        yield number, offset, piece, continued, cut
        offset += len(piece)
        continued = cut


def _is_text(path):
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return name.suffix.lower() in TEXT


def _cut_offset(piece):
    end = piece.rfind(b" ", len(piece) // 2) + 1
    if end:
        return end
    end = len(piece) - 1
    while end > len(piece) - 4 and piece[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return max(end, 1)


LONGEST_LINE = limit("cell_characters")

# First bytes of files in other encodings that have a signature.
_MARKS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def read_text(path):
    """The text of a file, without a byte order mark.

    Args:
        path: a file in UTF-8, plain, `.gz` or `.xz`.

    Raises:
        ValueError: the file does not exist, is empty, damaged or in another encoding; the error names the byte and line.
    """
    path = Path(path)
    if not path.exists() or path.is_dir():
        raise ValueError(f"expected a file of examples; {path} {'is a folder' if path.is_dir() else 'does not exist'}.")
    with opened(path, "expected an intact compressed file") as (stream, _):
        content = stream.read()
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
    """The lines of a file without their line ends, which are LF or CRLF.

    Other characters that Python treats as line ends, such as U+2028, are part of the text.
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
    """The suffix of a file name that gives its format, in lower case: `.jsonl` for `train.jsonl.xz`."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()


class BoundedUnpacking(io.RawIOBase):
    """The decompressed bytes of a file; raises an error if they exceed a multiple of its size: a kilobyte can expand to gigabytes.

    Args:
        stream: the stream of decompressed bytes, such as `lzma.open` returns.
        path: the file, for its size and for errors.
    """

    def __init__(self, stream, path):
        self._stream, self._path, self._done = stream, path, 0
        self._maximum = max(limit("unpacked_floor_bytes"), limit("unpacked_ratio") * Path(path).stat().st_size)

    def readable(self):
        return True

    def readinto(self, buffer):
        """Decompress the next bytes.

        Raises:
            ValueError: the limit is exceeded.
        """
        content = self._stream.read(len(buffer))
        self._done += len(content)
        if self._done > self._maximum:
            raise ValueError(
                f"{printable(self._path)} decompresses to over {self._maximum:,} bytes, {limit('unpacked_ratio')} times its size, "
                "which no text does: decompress it first if this is intended."
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self):
        self._stream.close()
        super().close()
