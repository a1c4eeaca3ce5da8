"""What the files of a checkpoint tell a `WordPieceTokenizer`."""

import warnings

from keras_bert_rebuild.text.added_tokens import mask_takes_space, with_added_tokens
from keras_bert_rebuild.text.json_file import json_object
from keras_bert_rebuild.text.tokenizer_json import checked_vocabulary, is_googles, model_type, row_tokens, section, told_rules
from keras_bert_rebuild.text.tokens import TOKEN_MASK
from keras_bert_rebuild.text.vocabulary import is_cased, load_vocabulary

# Settings of tokenizer_config.json, which normalizers of tokenizer.json call otherwise.
IN_NORMALIZER = {"do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars"}

# Classes that read tokenizer.json and nothing else.
GENERIC_CLASSES = ("pretrainedtokenizerfast", "tokenizersbackend")


def wordpiece_arguments(path, given):
    """The vocabulary of a checkpoint and the other arguments of its `WordPieceTokenizer`.

    What tokenizer_config.json says is stronger than what the normalizer of tokenizer.json says, as in transformers, unless it
    names a class that reads tokenizer.json alone.

    Args:
        path: a folder, or the path of a vocab.txt.
        given: arguments that need not be read.

    Raises:
        ValueError: there is no vocabulary, or tokenizer.json cuts texts by other rules than Google's.
    """
    folder, vocabulary = (path.parent, path) if path.is_file() else (path, path / "vocab.txt")
    json_path = folder / "tokenizer.json"
    pipeline, kind = _pipeline(json_path)
    if vocabulary.is_file():
        tokens = load_vocabulary(vocabulary)
    elif kind == "WordPiece":
        tokens = checked_vocabulary(section(pipeline, "model", json_path), json_path)
    elif pipeline:
        raise ValueError(f"a WordPiece tokenizer must be at {path}; tokenizer.json holds one of type {kind!r}.")
    else:
        raise ValueError(f"a vocab.txt, or a folder with one, must be at {path}; there is none.")
    pipeline = pipeline if kind == "WordPiece" else {}
    tokens, added = with_added_tokens(tokens, folder)
    arguments = {
        "cased": None,
        **_arguments(cleaning_settings(folder, section(pipeline, "normalizer", json_path))),
        "second_segment": _second_segment(folder, row_tokens(pipeline, json_path)),
        "mask_takes_space": mask_takes_space(folder, TOKEN_MASK),
        "added_tokens": added,
        **given,
    }
    if arguments["cased"] is None and is_cased(set(tokens).difference(token.content for token in added)):
        warnings.warn(
            f"the files at {folder} do not say whether the tokenizer is cased; the vocabulary has upper-case letters, so case "
            "and accents are retained (cased=True or False decides).",
            stacklevel=3,
        )
    return tokens, arguments


def _pipeline(path):
    """A tokenizer.json and the type of its model; a ValueError where it is WordPiece by other rules than Google's."""
    pipeline = json_object(path)
    kind = model_type(pipeline, path) if pipeline else None
    if kind == "WordPiece" and not is_googles(pipeline, path):
        raise ValueError(
            f"a WordPieceTokenizer cuts texts as Google's BERT does; {told_rules(pipeline, path)}: use load_tokenizer."
        )
    return pipeline, kind


def settings_beside(vocabulary):
    """The arguments of a `WordPieceTokenizer` about case, accents and CJK characters that the files beside a vocab.txt tell.

    Args:
        vocabulary: a `Path`; files beside one of another name do not belong to it.

    Raises:
        ValueError: the files are damaged, or tokenizer.json cuts texts by other rules than Google's.
    """
    if vocabulary.name != "vocab.txt":
        return {}
    path = vocabulary.parent / "tokenizer.json"
    pipeline, kind = _pipeline(path)
    said = cleaning_settings(vocabulary.parent, section(pipeline, "normalizer", path) if kind == "WordPiece" else {})
    return _arguments(said)


def _arguments(said):
    """Settings of tokenizer_config.json as arguments of a `WordPieceTokenizer`."""
    said = dict(said)
    lower = said.pop("do_lower_case", None)
    return said if lower is None else {"cased": not lower, **said}


def cleaning_settings(folder, normalizer):
    """Those of the settings of `IN_NORMALIZER` that the files tell.

    Args:
        folder: a `Path`; read is tokenizer_config.json.
        normalizer: that of tokenizer.json, or an empty dictionary.

    Raises:
        ValueError: a setting is neither true nor false.
    """
    path = folder / "tokenizer_config.json"
    settings = json_object(path)
    name = settings.get("tokenizer_class")
    if normalizer and isinstance(name, str) and name.lower() in GENERIC_CLASSES:
        settings = {}
    told = normalizer if normalizer.get("type") == "BertNormalizer" else {}
    found = {setting: settings.get(setting, told.get(inside)) for setting, inside in IN_NORMALIZER.items()}
    wrong = next((item for item in found.items() if item[1] not in (None, True, False)), None)
    if wrong is not None:
        raise ValueError(f"{wrong[0]} at {folder} must be true or false; got {wrong[1]!r:.40}.")
    for setting in ("never_split", "do_basic_tokenize"):
        if settings.get(setting) not in (None, True, []):
            warnings.warn(f"{setting} in {path} is ignored, as transformers 5 does: {settings[setting]!r:.60}.", stacklevel=4)
    return {setting: value for setting, value in found.items() if value is not None}


def _second_segment(folder, row):
    """Segment of the second text of a pair: a model that knows one has 0 for both."""
    if json_object(folder / "config.json").get("type_vocab_size") == 1:
        return 0
    return 1 if row is None else row.second_segment
