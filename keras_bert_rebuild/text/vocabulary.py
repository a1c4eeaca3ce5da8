"""Vocabulary files: a token a line, its id the number of the line."""

import os
from collections.abc import Iterable
from pathlib import Path

from keras_bert_rebuild.files.regular import read_bytes


def load_vocabulary(vocab_path: str | os.PathLike[str]) -> dict[str, int]:
    """Read a vocabulary.

    Lines end at a line feed and nowhere else, white space around a token is dropped. A token that stands twice has the id of its
    last line, as in Google's reader, and shifts no other (in keras_bert it did).

    Args:
        vocab_path: a text file in UTF-8.

    Returns:
        A dictionary from token to id.

    Raises:
        ValueError: the file is not in UTF-8, no file, or larger than a vocabulary can be.
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
    """Write tokens in the order of their ids."""
    path = Path(vocab_path)
    beside = path.with_name(path.name + ".part")
    beside.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8", newline="\n")
    beside.replace(path)


def is_cased(tokens):
    """Whether a vocabulary has upper-case letters outside its special tokens, so that texts may not be lower-cased."""
    return any(token != token.lower() for token in tokens if not (token.startswith("[") and token.endswith("]")))
