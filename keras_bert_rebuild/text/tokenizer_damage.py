"""Files of a tokenizer that are not as its kind has them: one sentence with the folder, whatever was in them."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.text.json_file import json_object

_Reader = TypeVar("_Reader", bound=Callable[..., Any])

# What a dictionary, a list or a number in an unexpected place ends in. `tokenizers` raises the first two for what it cannot take.
MALFORMED = (TypeError, OverflowError, AttributeError, LookupError)


def reads_tokenizer_files(read: _Reader) -> _Reader:
    """A function that makes a tokenizer of files, the path its last positional argument; errors name the path.

    Raises:
        ValueError: a file is malformed, or adds more tokens than can be looked for.
    """

    @functools.wraps(read)
    def bounded(*args, **options):
        path = args[-1] if args else options.get("path")
        _check_added(Path(path))
        try:
            tokenizer = read(*args, **options)
        except MALFORMED as error:
            if _of_the_call(error, options):
                raise
            reason = printable(" ".join(str(error).split()))
            raise ValueError(f"the files of a tokenizer at {printable(path)} are malformed: {reason}.") from error
        check_limit("added_tokens", len(getattr(tokenizer, "added_tokens", ())), f"the tokenizer at {printable(path)}")
        return tokenizer

    return cast(_Reader, bounded)


def _of_the_call(error, options):
    """Whether an argument was given that the tokenizer does not have."""
    return isinstance(error, TypeError) and "unexpected keyword argument" in str(error) and bool(options)


def _check_added(path):
    folder = path if path.is_dir() else path.parent
    added = (json_object(folder / "added_tokens.json"), json_object(folder / "tokenizer_config.json").get("added_tokens_decoder"))
    for tokens in added:
        if isinstance(tokens, (dict, list)):
            check_limit("added_tokens", len(tokens), f"the files of a tokenizer at {printable(path)}")
