"""Read a corpus of any size block by block, and count its words."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from keras_bert_rebuild.data.text_files import corpus_files, lines_of, opened
from keras_bert_rebuild.text.normalization import split_words

BLOCK_BYTES = 4_000_000
LINE_BYTES = 1 << 20

_BAD_LINES_NAMED = 20
_BOM = "\ufeff"


@dataclass
class Block:
    """Consecutive documents."""

    number: int
    """From 0."""

    text: bytearray
    """UTF-8, a line feed between passages, an empty line between documents; passages have no leading or trailing white space."""

    text_bytes: int
    """Size of the text in the files, white space included."""

    file_bytes: int
    """Bytes of the files on disk read so far."""

    continues: bool = False
    """Whether the first document continues the last document of the previous block."""

    @property
    def documents(self):
        """The documents, each a list of passages."""
        return [document.split("\n") for document in self.text.decode().split("\n\n")]


class CorpusReader:
    """Reads a text file or every text file of a folder: see `corpus_files`.

    Every line is a passage; a blank line or the end of a file ends a document, as in Google's pretraining data. A byte order mark
    is ignored.

    Args:
        path: a file or a folder of files in UTF-8, plain, `.gz` or `.xz`.
        document_per_file: each file is one document, regardless of blank lines.
        block_bytes: maximum size of the text of a block, unless a single line is longer. A block ends with a document; a document
            longer than a block is split between passages, and the next block has `continues`.
        line_bytes: longer lines are split into passages and counted in `cut_lines`.
        strict: whether a line that is not UTF-8 is an error; otherwise it is skipped and counted in `bad_lines`.

    Raises:
        ValueError: the path does not exist; while reading: a compressed file is damaged, or the corpus has no passage.
    """

    def __init__(self, path, document_per_file=False, block_bytes=BLOCK_BYTES, line_bytes=LINE_BYTES, strict=False):
        self.path = Path(path)
        self.files = corpus_files(path)
        self.sizes = [file.stat().st_size for _, file in self.files]
        self.document_per_file = document_per_file
        self.block_bytes = block_bytes
        self.line_bytes = line_bytes
        self.strict = strict
        self._restart()

    @property
    def file_bytes(self):
        """Size of the files on disk."""
        return sum(self.sizes)

    def fingerprint(self):
        """Number and total size of the files, and a digest of their names and sizes."""
        listing = "".join(f"{name}\0{size}\n" for (name, _), size in zip(self.files, self.sizes, strict=True))
        digest = hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
        return {"files": len(self.files), "bytes": self.file_bytes, "sha256": digest}

    def notes(self):
        """Messages for the user about text that was skipped or split so far."""
        notes = [f"{name}, line {number}: not UTF-8, skipped" for name, number in self.first_bad_lines]
        if self.bad_lines > len(notes):
            notes.append(f"and {self.bad_lines - len(notes):,} more lines that are not UTF-8")
        if self.cut_lines:
            notes.append(f"{self.cut_lines:,} lines longer than {self.line_bytes:,} bytes were split into several passages")
        return notes

    def blocks(self):
        """Yield every `Block` of the corpus in order."""
        self._restart()
        # Text is held as one buffer: separate strings would take several times the memory.
        number, text, size, continues = 0, bytearray(), 0, False  # of the block: its complete documents
        document, document_size, document_continues = bytearray(), 0, False
        for passage, length in self._lines():
            if not passage:
                if document:
                    continues = continues if text else document_continues
                    # Appended separately: joined first, they would be in memory twice and fragment it.
                    text += b"\n\n" if text else b""
                    text += document
                    size += document_size
                document, document_size, document_continues = bytearray(), 0, False
                continue
            if text and size + document_size + length > self.block_bytes:
                block = Block(number, text, size, self._read(), continues)
                number, text, size = number + 1, bytearray(), 0
                yield block
                del block
            if document and document_size + length > self.block_bytes:
                block = Block(number, document, document_size, self._read(), document_continues)
                number, document, document_size, document_continues = number + 1, bytearray(), 0, True
                yield block
                del block
            document += b"\n" + passage.encode() if document else passage.encode()
            document_size += length
        if text:
            yield Block(number, text, size, self._read(), continues)
        elif number == 0:
            but = f" that is UTF-8, and {self.bad_lines:,} that are not" if self.bad_lines else ""
            raise ValueError(f"the corpus must have at least one line of text; {self.path} has none{but}.")

    def _restart(self):
        self.bad_lines = self.cut_lines = 0
        self.first_bad_lines = []
        self._read = lambda: 0

    def _lines(self):
        """Yield `(text, bytes)` of every line, and `("", 0)` where a document ends."""
        before = 0
        for (name, file), file_size in zip(self.files, self.sizes, strict=True):
            with opened(file) as (stream, position):
                self._read = lambda before=before, position=position: before + position()
                bad = 0
                for number, offset, piece, continued, cut in lines_of(stream, self.line_bytes):
                    self.cut_lines += cut and not continued
                    length = len(piece)
                    try:
                        text = piece.decode()
                    except UnicodeDecodeError as error:
                        if self.strict:
                            raise ValueError(
                                f"the corpus must be text in UTF-8; {file} is not, at byte {offset + error.start} (line {number})."
                            ) from None
                        if bad != number:  # count a split line once
                            self._count_bad_line(name, number)
                        bad = number
                        continue
                    text = (text if offset else text.removeprefix(_BOM)).strip()
                    if text:
                        yield text, length
                    elif not (self.document_per_file or continued or cut):
                        yield "", 0
                before += file_size
                self._read = lambda before=before: before
            yield "", 0

    def _count_bad_line(self, name, number):
        self.bad_lines += 1
        if len(self.first_bad_lines) < _BAD_LINES_NAMED:
            self.first_bad_lines.append((name, number))


# Google's WordPiece makes longer words [UNK].
LONGEST_WORD = 200

_CHUNKS_HELD = 500_000


def make_chunk_counter():
    """Make a function from the text of a `Block` to a `Counter` of what is between its spaces, for `WordCounts`."""
    return lambda text: Counter(text.decode().replace("\n", " ").split(" "))


class WordCounts:
    """Words and their counts, in memory that grows with the number of distinct words, not with the text.

    Args:
        cased: keep case and accents.

    Attributes:
        counts: a `Counter` of words, complete after `finish`.
        too_long: how many words of more than 200 characters were skipped.
    """

    def __init__(self, cased=False):
        self.cased = cased
        self.counts = Counter()
        self.too_long = 0
        self._chunks = Counter()

    def add(self, passage):
        """Count the words of a passage."""
        self.add_chunks(passage.split(" "))

    def add_chunks(self, chunks):
        """Count the words of what is between spaces: an iterable of texts, or the `Counter` of one."""
        # Each distinct chunk is normalised once: no rule looks across a space.
        self._chunks.update(chunks)
        if len(self._chunks) > _CHUNKS_HELD:
            self.finish()

    def finish(self):
        """Count the words of the chunks collected so far; returns `counts`."""
        for chunk, count in self._chunks.items():
            for word in split_words(chunk, self.cased):
                if len(word) > LONGEST_WORD:
                    self.too_long += count
                else:
                    self.counts[word] += count
        self._chunks.clear()
        return self.counts
