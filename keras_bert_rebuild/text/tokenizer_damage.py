"""Errors for malformed files of a tokenizer: one sentence with the folder, whatever is in them."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from keras_bert_rebuild.files.json_text import json_object
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable

_Reader = TypeVar("_Reader", bound=Callable[..., Any])

# The errors that a dictionary, list or number of the wrong type causes. `tokenizers` raises the first two for invalid arguments.
MALFORMED = (TypeError, OverflowError, AttributeError, LookupError)


def reads_tokenizer_files(read: _Reader) -> _Reader:
    """Decorator of a function that reads a tokenizer, with the path as last positional argument; errors name the path.

    Raises:
        ValueError: a file is malformed, or adds more tokens than the limit.
    """

    @functools.wraps(read)
    def bounded(*args, **options):
        path = args[-1] if args else options.get("path")
        _check_added(Path(path))
        try:
            tokenizer = read(*args, **options)
        except MALFORMED as error:
            if _is_wrong_argument(error, options):
                raise
            reason = printable(" ".join(str(error).split()))
            raise ValueError(f"the files of a tokenizer at {printable(path)} are malformed: {reason}.") from error
        check_limit("added_tokens", len(getattr(tokenizer, "added_tokens", ())), f"the tokenizer at {printable(path)}")
        return tokenizer

    return cast(_Reader, bounded)


def _is_wrong_argument(error, options):
    """Whether the error is an argument that the tokenizer does not have."""
    return isinstance(error, TypeError) and "unexpected keyword argument" in str(error) and bool(options)


def _check_added(path):
    folder = path if path.is_dir() else path.parent
    added = (json_object(folder / "added_tokens.json"), json_object(folder / "tokenizer_config.json").get("added_tokens_decoder"))
    for tokens in added:
        if isinstance(tokens, (dict, list)):
            check_limit("added_tokens", len(tokens), f"the files of a tokenizer at {printable(path)}")
