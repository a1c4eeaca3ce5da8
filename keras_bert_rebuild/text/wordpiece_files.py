"""Arguments of a `WordPieceTokenizer` from the files of a checkpoint."""

import warnings

from keras_bert_rebuild.files.reading import json_object
from keras_bert_rebuild.text.added_tokens import mask_takes_space, with_added_tokens
from keras_bert_rebuild.text.tokenizer_json import (
    checked_vocabulary,
    described_rules,
    is_googles,
    model_type,
    row_settings,
    row_tokens,
    section,
)
from keras_bert_rebuild.text.vocabulary import TOKEN_MASK, is_cased, load_vocabulary

# Settings in tokenizer_config.json to their names in normalizers of tokenizer.json.
IN_NORMALIZER = {"do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars"}

# Classes that only read tokenizer.json.
GENERIC_CLASSES = ("pretrainedtokenizerfast", "tokenizersbackend")


def wordpiece_arguments(path, given):
    """The vocabulary of a checkpoint and the other arguments of its `WordPieceTokenizer`.

    tokenizer_config.json takes precedence over the normalizer of tokenizer.json, as in transformers, unless it names a class that
    only reads tokenizer.json.

    Args:
        path: a folder, or the path of a vocab.txt.
        given: arguments that override the files.

    Raises:
        ValueError: there is no vocabulary, or the rules in tokenizer.json are not Google's.
    """
    folder, vocabulary = (path.parent, path) if path.is_file() else (path, path / "vocab.txt")
    json_path = folder / "tokenizer.json"
    pipeline, kind = _pipeline(json_path)
    if vocabulary.is_file():
        tokens = load_vocabulary(vocabulary)
    elif kind == "WordPiece":
        tokens = checked_vocabulary(section(pipeline, "model", json_path), json_path)
    elif pipeline:
        raise ValueError(f"expected a WordPiece tokenizer at {path}; its tokenizer.json has one of type {kind!r}.")
    else:
        raise ValueError(f"expected a vocab.txt, or a folder with one, at {path}; it does not exist.")
    pipeline = pipeline if kind == "WordPiece" else {}
    tokens, added = with_added_tokens(tokens, folder)
    row = row_tokens(pipeline, json_path)
    arguments = {
        "cased": None,
        **_arguments(cleaning_settings(folder, section(pipeline, "normalizer", json_path))),
        "second_segment": 1 if row is None else row.second_segment,
        **{name: value for name, value in row_settings(folder, pipeline).items() if value is not None},
        "mask_takes_space": mask_takes_space(folder, TOKEN_MASK),
        "added_tokens": added,
        **given,
    }
    if arguments["cased"] is None and is_cased(set(tokens).difference(token.content for token in added)):
        warnings.warn(
            f"the files at {folder} do not say whether the tokenizer is cased; since the vocabulary has upper-case letters, case "
            "and accents are retained (set cased=True or False to choose).",
            stacklevel=3,
        )
    return tokens, arguments


def _pipeline(path):
    """A tokenizer.json and the type of its model; a ValueError if it is WordPiece with rules that are not Google's."""
    pipeline = json_object(path)
    kind = model_type(pipeline, path) if pipeline else None
    if kind == "WordPiece" and not is_googles(pipeline, path):
        raise ValueError(
            f"a WordPieceTokenizer must have the rules of Google's BERT; {described_rules(pipeline, path)}: use load_tokenizer."
        )
    return pipeline, kind


def settings_beside(vocabulary):
    """The arguments of a `WordPieceTokenizer` for case, accents and CJK characters from the files next to a vocab.txt.

    Args:
        vocabulary: a `Path`; a file of another name has no such files.

    Raises:
        ValueError: the files are damaged, or the rules in tokenizer.json are not Google's.
    """
    if vocabulary.name != "vocab.txt":
        return {}
    path = vocabulary.parent / "tokenizer.json"
    pipeline, kind = _pipeline(path)
    settings = cleaning_settings(vocabulary.parent, section(pipeline, "normalizer", path) if kind == "WordPiece" else {})
    return _arguments(settings)


def _arguments(settings):
    """Settings of tokenizer_config.json as arguments of a `WordPieceTokenizer`."""
    settings = dict(settings)
    lower = settings.pop("do_lower_case", None)
    return settings if lower is None else {"cased": not lower, **settings}


def cleaning_settings(folder, normalizer):
    """The settings of `IN_NORMALIZER` in the files.

    Args:
        folder: a `Path`; reads tokenizer_config.json.
        normalizer: the normalizer of tokenizer.json, or an empty dictionary.

    Raises:
        ValueError: a setting is neither true nor false.
    """
    path = folder / "tokenizer_config.json"
    settings = json_object(path)
    name = settings.get("tokenizer_class")
    if normalizer and isinstance(name, str) and name.lower() in GENERIC_CLASSES:
        settings = {}
    default = normalizer if normalizer.get("type") == "BertNormalizer" else {}
    found = {setting: settings.get(setting, default.get(name)) for setting, name in IN_NORMALIZER.items()}
    wrong = next((item for item in found.items() if item[1] not in (None, True, False)), None)
    if wrong is not None:
        raise ValueError(f"{wrong[0]} at {folder} must be true or false; got {wrong[1]!r:.40}.")
    for setting in ("never_split", "do_basic_tokenize"):
        if settings.get(setting) not in (None, True, []):
            warnings.warn(f"{setting} in {path} is ignored, as transformers 5 does: {settings[setting]!r:.60}.", stacklevel=4)
    return {setting: value for setting, value in found.items() if value is not None}
