"""The parts of a tokenizer.json: whose rules it has, its rows and added tokens; and calls of the package tokenizers."""

import base64
import binascii
from dataclasses import dataclass

from tokenizers import AddedToken

from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.text.encoding import CLS_SEGMENT, SIDES

# The special tokens that settings name, `cls_token` and so on.
SPECIAL_NAMES = ("cls", "sep", "pad", "unk", "mask")

# How an added token is matched; each flag is true or false in the files.
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

# Maximum characters of a word in WordPiece models with default rules: Hugging Face's default and Google's.
USUAL_LONGEST_WORDS = (100, 200)


@dataclass(frozen=True)
class RowTokens:
    """The special tokens of `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, or of `A <sep> <cls>` and `A <sep> B <sep> <cls>`."""

    cls: str
    sep: str

    separators: int
    """Number of separators between the texts of a pair."""

    second_segment: int
    """Segment of the second text of a pair."""

    cls_last: bool = False
    """Whether the class token is last, in segment 2."""


def section(values, name, path):
    """The object under a name in a JSON object, empty if missing; a ValueError for anything else."""
    value = values.get(name)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{name!r} in {path} must be a JSON object; got {type(value).__name__} {value!r:.40}.")
    return value or {}


def objects(values, name, path):
    """The list of objects under a name, empty if missing; a ValueError for anything else."""
    value = values.get(name)
    if value is not None and not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
        raise ValueError(f"{name!r} in {path} must be a list of JSON objects; got {type(value).__name__} {value!r:.40}.")
    return value or []


def model_type(values, path):
    """The type of the model, inferred for files of 2020, which do not name it."""
    model = section(values, "model", path)
    if "type" in model or not model:
        return model.get("type")
    return "BPE" if "merges" in model else "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"


def checked_vocabulary(model, path):
    """The vocabulary of a model in tokenizer.json, token to id; else a ValueError."""
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not vocabulary or any(type(i) is not int or i < 0 for i in vocabulary.values()):
        raise ValueError(f"the vocabulary in {path} must be an object from token to id; got {vocabulary!r:.60}.")
    return vocabulary


def check_ids(vocabulary, where):
    """Refuse a vocabulary with far more ids than tokens."""
    check_limit("unused_ids", max(vocabulary.values(), default=-1) + 1 - len(vocabulary), f"the vocabulary of {printable(where)}")


def added_token(values, where):
    """An `AddedToken` from an object in a file; a ValueError if it is malformed.

    Args:
        values: a dictionary with `content` and some of `FLAGS`.
        where: the file, for errors.
    """
    content = values.get("content")
    flags = {flag: values[flag] for flag in FLAGS if values.get(flag) is not None}
    if not isinstance(content, str) or not content or not all(isinstance(flag, bool) for flag in flags.values()):
        raise ValueError(f"{where} must give every added token a content and flags that are true or false; got {values!r:.80}.")
    return AddedToken(content, **flags)


def flags_of(rule):
    """The object in a file from which `added_token` makes an `AddedToken`."""
    return {"content": rule.content, **{flag: getattr(rule, flag) for flag in FLAGS}}


def token_id(value, where):
    """The id of an added token, from a number or its digits; a ValueError for anything else."""
    try:
        number = -1 if isinstance(value, (bool, float)) else int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ValueError(f"{where} must give every added token an id, a whole number of at least 0; got {value!r:.40}.")
    return number


def is_googles(values, path):
    """Whether a tokenizer.json splits texts as Google's BERT does, apart from `WordPieceSettings`."""
    model, normalizer = section(values, "model", path), section(values, "normalizer", path)
    row = row_tokens(values, path)
    if "vocab" not in model:  # a file with only added tokens
        return model_type(values, path) == "WordPiece"
    return (
        model_type(values, path) == "WordPiece"
        and model.get("continuing_subword_prefix", "##") == "##"
        and model.get("unk_token", "[UNK]") == "[UNK]"
        and model.get("max_input_chars_per_word", 100) in USUAL_LONGEST_WORDS
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text", True) is True
        and section(values, "pre_tokenizer", path).get("type") == "BertPreTokenizer"
        and (row is None or (row.cls, row.sep, row.separators) == ("[CLS]", "[SEP]", 1))
    )


def is_robertas(values, path):
    """Whether a tokenizer.json splits texts as RoBERTa does, with or without a space before them."""
    model, splitter = section(values, "model", path), section(values, "pre_tokenizer", path)
    row = row_tokens(values, path)
    return (
        model_type(values, path) == "BPE"
        and not any(model.get(name) for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"))
        and not model.get("ignore_merges")
        and not section(values, "normalizer", path)
        and splitter.get("type") == "ByteLevel"
        and splitter.get("use_regex", True) is True
        and (row is None or row == RowTokens("<s>", "</s>", 2, 0))
    )


def described_rules(values, path):
    """A short description of the rules of a tokenizer.json, for errors."""
    splitter, normalizer = (section(values, name, path).get("type") for name in ("pre_tokenizer", "normalizer"))
    return f"{path} has a {model_type(values, path)} model on {splitter} words, normalizer {normalizer}"


def row_tokens(values, path):
    """The special tokens that a tokenizer.json puts around texts, a `RowTokens`; None if there are none.

    Raises:
        ValueError: rows are not `token text token`.
    """
    processor = section(values, "post_processor", path)
    if processor.get("type") == "Sequence":
        processors = [each for each in objects(processor, "processors", path) if each.get("type") != "ByteLevel"]
        if len(processors) > 1:
            raise ValueError(f"{path} must define the tokens around a text once; its post_processor defines them several times.")
        processor = processors[0] if processors else {}
    kind = processor.get("type")
    if kind in (None, "ByteLevel"):
        return None
    if kind in ("BertProcessing", "RobertaProcessing"):
        cls, sep = (processor.get(name) for name in ("cls", "sep"))
        if not all(isinstance(token, list) and token and isinstance(token[0], str) for token in (cls, sep)):
            raise ValueError(f"the post_processor of {path} must name its two tokens; got {cls!r:.40} and {sep!r:.40}.")
        return RowTokens(cls[0], sep[0], *((1, 1) if kind == "BertProcessing" else (2, 0)))
    if kind == "TemplateProcessing":
        single, pair = (_template(processor, name, path) for name in ("single", "pair"))
        if [single, pair] == _cls_last(*(name for name, _ in single[1:])):
            return RowTokens(single[2][0], single[1][0], 1, 1, True)
        # A row is `cls A sep`, a pair `cls A sep ... sep B sep`.
        if [each[0] for each in single[1:2]] == ["$A"] and len(single) == 3:
            (cls, _), _, (sep, _) = single
            separators = len(pair) - 4
            names = [cls, "$A", *[sep] * separators, "$B", sep]
            if separators >= 1 and [name for name, _ in pair] == names and "$B" not in (cls, sep):
                segments = [segment for _, segment in pair]
                second = segments[-1]
                if segments == [0] * (len(pair) - 2) + [second] * 2 and second in (0, 1):
                    return RowTokens(cls, sep, separators, second)
    raise ValueError(
        f"the rows of {path} must be a token, a text and a token, such as [CLS] A [SEP] or A <sep> <cls>; those of its "
        f"post_processor of type {kind!r} differ."
    )


def cut_side(values, path):
    """The end at which a tokenizer.json cuts texts that are too long, in lower case; "right" if it does not say."""
    return str(section(values, "truncation", path).get("direction") or SIDES[0]).lower()


def _cls_last(sep="", cls="", *_):
    """The templates of a text and of a pair that end with the class token."""
    end = [(sep, 1), (cls, CLS_SEGMENT)]
    return [[("$A", 0), (sep, 0), end[1]], [("$A", 0), (sep, 0), ("$B", 1), *end]]


def _template(processor, name, path):
    """A template as pairs of a special token, `$A` or `$B`, and a segment."""
    special, parts = section(processor, "special_tokens", path), []
    for piece in objects(processor, name, path):
        kind, value = next(iter(piece.items()), (None, None))
        if not isinstance(value, dict):
            raise ValueError(f"{name!r} in the post_processor of {path} must consist of objects; got {piece!r:.60}.")
        if kind == "Sequence":
            parts.append((f"${value.get('id')}", value.get("type_id", 0)))
        else:
            tokens = section(special, str(value.get("id")), path).get("tokens") or [value.get("id")]
            parts += [(token, value.get("type_id", 0)) for token in tokens]
    return parts


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
