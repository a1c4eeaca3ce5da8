"""Calls into the package tokenizers, whose errors become one sentence, and what a file must not ask of it."""

import base64
import binascii

from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.text.tokenizer_json import objects, section

# Parts of a regular expression with which it may match nothing, and so add text without replacing any.
_MAY_BE_EMPTY = ("*", "?", "|", "^", "$", "{", "\\")


class OneSentence:
    """A context in which errors of the package tokenizers are a ValueError.

    Its Rust code panics for rules that it cannot run, and `pyo3_runtime.PanicException`, which cannot be imported, is no
    `Exception`; its other errors are of the class `Exception` itself. Everything else passes.

    Args:
        where: the file, for the error.
    """

    def __init__(self, where):
        self._where = where

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is Exception or (kind is not None and (kind.__module__, kind.__name__) == ("pyo3_runtime", "PanicException")):
            reason = printable(" ".join(str(error).split()))[:200]
            raise ValueError(f"{self._where} must have rules that the package tokenizers can run: {reason}.") from None


def check_growth(values, where):
    """Refuse normalizers and decoders that could make a text many times as long.

    Args:
        values: the content of a tokenizer.json.
        where: the file, for errors.

    Raises:
        ValueError: replacements in a row make a text longer than the limit allows, or a `precompiled_charsmap` is damaged.
    """
    for name, steps in (("normalizer", "normalizers"), ("decoder", "decoders")):
        check_limit("replacement_growth", _growth(section(values, name, where), steps, where), f"the {name} in {where}")


def _growth(step, steps, where):
    """How many times as long a step may make a text, a whole number; ends as soon as it is above any limit."""
    kind, content = step.get("type"), step.get("content")
    if kind == "Sequence":
        product = 1
        for each in objects(step, steps, where):
            product = min(product * _growth(each, steps, where), 10**12)
        return product
    if kind == "Precompiled":
        return _growth_of_charsmap(step.get("precompiled_charsmap"), where)
    size = len(content) if isinstance(content, str) else 0
    if kind == "Replace":
        pattern = section(step, "pattern", where)
        replaced, regex = pattern.get("String"), pattern.get("Regex")
        if isinstance(replaced, str) and replaced:
            return max(1, -(-size // len(replaced)))
        return size + 1 if isinstance(regex, str) and size and any(part in regex for part in _MAY_BE_EMPTY) else max(1, size)
    return max(1, len(step["prepend"])) if kind == "Prepend" and isinstance(step.get("prepend"), str) else 1


def _growth_of_charsmap(content, where):
    """The maximum length of a replacement in a charsmap: the size of a trie, the trie, and texts that end in NUL."""
    try:
        table = base64.b64decode(content or "", validate=True)
    except (TypeError, binascii.Error, ValueError):
        table = b""
    size = int.from_bytes(table[:4], "little")
    if content and not (len(table) >= 8 and size % 4 == 0 and 0 < size <= len(table) - 4):
        raise ValueError(f"the precompiled_charsmap in {where} must be the rules of a SentencePiece model; it is damaged.")
    return max(1, *(len(text.decode("utf-8", "replace")) for text in table[4 + size :].split(b"\0")))
