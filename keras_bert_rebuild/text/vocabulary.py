"""Vocabulary files, one token per line with the line number as its id, and the special tokens."""

import os
from collections.abc import Iterable

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.kinds import VOCABULARY
from keras_bert_rebuild.files.output import check_file
from keras_bert_rebuild.files.regular import read_bytes


def load_vocabulary(vocab_path: str | os.PathLike[str]) -> dict[str, int]:
    """Read a vocabulary.

    Lines end only at a line feed; white space around a token is dropped. A repeated token has the id of its last line, as in
    Google's reader, and does not shift other ids (in keras_bert it did).

    Args:
        vocab_path: a text file in UTF-8.

    Returns:
        A dictionary from token to id.

    Raises:
        ValueError: the file is not in UTF-8, not a file, or larger than the limit for a vocabulary.
        OSError: it cannot be read.
    """
    try:
        text = read_bytes(vocab_path, "vocabulary_bytes").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{vocab_path} must be a vocabulary in UTF-8: {error}.") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return {line.strip(): i for i, line in enumerate(lines)}


def save_vocabulary(tokens: Iterable[str], vocab_path: str | os.PathLike[str]) -> None:
    """Write tokens in the order of their ids, atomically; an existing vocabulary is replaced, but no other file.

    Raises:
        ValueError: the existing file is not a vocabulary, or the name ends in something other than .txt, .vocab or nothing.
        OSError: it cannot be written.
    """
    check_file(vocab_path, VOCABULARY)
    content = "".join(f"{token}\n" for token in tokens).encode()
    write_file(vocab_path, lambda file: file.write(content))


def is_cased(tokens):
    """Whether a vocabulary has upper-case letters outside its special tokens, so that texts may not be lower-cased."""
    return any(token != token.lower() for token in tokens if not (token.startswith("[") and token.endswith("]")))


TOKEN_PAD = ""  # keras_bert's, where Google's vocabularies have [PAD]
TOKEN_UNK = "[UNK]"
TOKEN_CLS = "[CLS]"
TOKEN_SEP = "[SEP]"
TOKEN_MASK = "[MASK]"

GOOGLE_PAD = "[PAD]"


def get_base_dict() -> dict[str, int]:
    """A new dictionary of the special tokens and their ids.

    Example:

    >>> get_base_dict()
    {'': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, '[MASK]': 4}
    """
    return {token: i for i, token in enumerate((TOKEN_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK))}
