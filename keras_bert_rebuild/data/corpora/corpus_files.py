"""The files of a corpus and their lines, plain or compressed."""

import contextlib
import gzip
import io
import lzma
import zlib
from pathlib import Path

from keras_bert_rebuild.files.regular import BoundedUnpacking, check_regular

TEXT = (".txt", ".md")
COMPRESSED = {".gz": gzip.open, ".xz": lzma.open}

_BUFFER = 1 << 20


def corpus_files(path):
    """The files of a corpus, sorted by name.

    Args:
        path: a file of any name, or a folder. Of a folder and its sub-folders, all files are used that end in `.txt`, `.md`,
            `.txt.gz`, `.txt.xz`, `.md.gz` or `.md.xz`.

    Returns:
        A list of pairs: the name within the corpus, with `/` between its parts, and the path.

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
def opened(path):
    """Open a file of a corpus and decompress it if its suffix says so.

    Yields:
        `(stream, position)`: a buffered stream of the bytes of its text, and a function that returns how many bytes of the file
        itself were read.

    Raises:
        ValueError: it is not a file, or a compressed one that is damaged or unpacks to many times its size.
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
            raise ValueError(f"the corpus must have intact files; {path} is damaged: {str(error).rstrip('.')}.") from None


def lines_of(stream, line_bytes):
    """Split bytes into lines, long ones into pieces.

    Args:
        stream: a buffered reader.
        line_bytes: a line longer than this is cut after a space in its second half or, where there is none, between characters.

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
