"""The arguments of a `PipelineTokenizer` from the files of a checkpoint, and its pipeline with hidden special tokens."""

import secrets

from keras_bert_rebuild.files.json_text import json_object
from keras_bert_rebuild.text.added_tokens import FLAGS, with_added_tokens
from keras_bert_rebuild.text.tokenizer_json import model_type, objects, section
from keras_bert_rebuild.text.wordpiece_files import GENERIC_CLASSES, IN_NORMALIZER, cleaning_settings

SPECIAL_NAMES = ("cls", "sep", "pad", "unk", "mask")

# Their usual forms in the vocabularies of BERT and RoBERTa.
USUAL = {
    "cls": ("[CLS]", "<s>", "<cls>"),
    "sep": ("[SEP]", "</s>", "<sep>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
}


def pipeline_of(path):
    """A tokenizer.json with the additions and overrides of the settings next to it; an empty dictionary if it does not exist.

    Args:
        path: a `Path`.

    Raises:
        ValueError: one of the files is damaged, or two of them contradict each other.
    """
    values, folder = json_object(path), path.parent
    if not values:
        return {}
    settings = json_object(folder / "tokenizer_config.json")
    normalizer, splitter = section(values, "normalizer", path), section(values, "pre_tokenizer", path)
    if normalizer.get("type") == "BertNormalizer":
        changes = cleaning_settings(folder, normalizer)
        values["normalizer"] = {**normalizer, **{IN_NORMALIZER[setting]: value for setting, value in changes.items()}}
    space = settings.get("add_prefix_space")
    if splitter.get("type") == "ByteLevel" and isinstance(space, bool) and not is_generic(settings):
        values["pre_tokenizer"] = {**splitter, "add_prefix_space": space}
    vocabulary, added = with_added_tokens(model_vocabulary(values, path), folder, model_type(values, path), ())
    values["added_tokens"] = [
        {"id": vocabulary[token.content], "content": token.content, **{flag: getattr(token, flag) for flag in FLAGS}}
        for token in added
    ]
    return values


def is_generic(settings):
    """Whether settings name a class that reads only tokenizer.json."""
    return str(settings.get("tokenizer_class")).lower() in GENERIC_CLASSES


def model_vocabulary(values, path):
    """The vocabulary of the model, token to id, in any of the formats."""
    vocabulary = section(values, "model", path).get("vocab")
    if not vocabulary:
        raise ValueError(f"{path} holds a {model_type(values, path)} model without a vocabulary.")
    if isinstance(vocabulary, list) and all(
        isinstance(piece, list) and piece and isinstance(piece[0], str) for piece in vocabulary
    ):
        return {piece[0]: i for i, piece in enumerate(vocabulary)}
    if not isinstance(vocabulary, dict) or any(type(i) is not int or i < 0 for i in vocabulary.values()):
        raise ValueError(
            f"the vocabulary in {path} must be an object from token to id, or a list of pieces; got {vocabulary!r:.60}."
        )
    return vocabulary


def named_special_tokens(folder):
    """The special tokens in the settings of a folder, by `SPECIAL_NAMES`."""
    found = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        values = json_object(folder / file)
        for name in SPECIAL_NAMES:
            token = values.get(f"{name}_token")
            token = token.get("content") if isinstance(token, dict) else token
            if token is not None and not isinstance(token, str):
                raise ValueError(f"{name}_token in {folder / file} must be a string; got {type(token).__name__} {token!r:.40}.")
            if token:
                found[name] = token
    return found


def special_tokens_of(pipeline, row, vocabulary, given, where):
    """The special tokens by `SPECIAL_NAMES`; the mask may be missing.

    Args:
        pipeline: the content of a tokenizer.json.
        row: its `RowTokens`, or None.
        vocabulary: token to id.
        given: those that override the file.
        where: the file, for errors.

    Raises:
        ValueError: one of them is not in the vocabulary.
    """
    model = section(pipeline, "model", where)
    unknown = model.get("unk_token")
    if isinstance(model.get("vocab"), list) and isinstance(model.get("unk_id"), int) and model["unk_id"] < len(model["vocab"]):
        unknown = model["vocab"][model["unk_id"]][0]
    known = {"unk": unknown, **given, **({} if row is None else {"cls": row.cls, "sep": row.sep})}
    # Added tokens in the file take precedence over a piece of the same form.
    listed = {token.get("content") for token in objects(pipeline, "added_tokens", where)}
    usual = {name: [token for token in tokens if token in vocabulary] for name, tokens in USUAL.items()}
    found = {
        name: known.get(name) or next(iter([*(token for token in tokens if token in listed), *tokens, None]))
        for name, tokens in usual.items()
    }
    missing = [name for name in SPECIAL_NAMES[:-1] if found[name] not in vocabulary]
    if missing:
        raise ValueError(f"{where} must have tokens for cls, sep, pad and unk; got one without {', '.join(missing)}.")
    return {name: token for name, token in found.items() if token in vocabulary}


def with_hidden_tokens(pipeline, special, where):
    """The pipeline with names of the special tokens that cannot occur in a text, so that in texts they are text.

    Args:
        pipeline: the content of a tokenizer.json.
        special: the contents of the tokens.
        where: the file, for errors.
    """
    model = section(pipeline, "model", where)
    names = {token: f"{token}{secrets.token_hex(16)}" for token in special}
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary = {names.get(token, token): i for token, i in vocabulary.items()}
    else:
        vocabulary = [[names.get(piece, piece), *score] for piece, *score in vocabulary]
    hidden = {**model, "vocab": vocabulary}
    if model.get("unk_token") in names:
        hidden["unk_token"] = names[model["unk_token"]]
    return {
        **pipeline,
        "model": hidden,
        "added_tokens": [token for token in pipeline.get("added_tokens") or [] if token["content"] not in special],
    }
