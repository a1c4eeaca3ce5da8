"""Tokens that a Hugging Face folder adds to its vocabulary, and how they are matched in texts."""

from tokenizers import AddedToken

from keras_bert_rebuild.files.reading import json_object
from keras_bert_rebuild.text.tokenizer_json import check_ids, model_type, objects, section
from keras_bert_rebuild.text.vocabulary import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_SEP, TOKEN_UNK

# A written `[MASK]` is text unless `special_tokens_in_text` is set.
SPECIAL = (GOOGLE_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK)

# How a token is matched; each flag is true or false in the files.
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

# Lists of additional special tokens, in files of transformers 4 and 5.
MORE_SPECIAL = ("additional_special_tokens", "extra_special_tokens")


def with_added_tokens(vocabulary, folder, kind="WordPiece", special=SPECIAL):
    """A vocabulary with the tokens added by the files next to it.

    Args:
        vocabulary: a dictionary from token to id.
        folder: a `Path` with tokenizer.json, tokenizer_config.json, special_tokens_map.json and added_tokens.json, all optional.
        kind: model type of the tokenizer.json; a file of another type belongs to another vocabulary.
        special: tokens that do not count as added, although the files list them.

    Returns:
        The vocabulary, and a dictionary from id to `tokenizers.AddedToken` for each added token.

    Raises:
        ValueError: a token or an id occurs twice, or one of the files is damaged.
    """
    listed = {}
    for token, i in (*_of_settings(folder), *_of_tokenizer_json(folder, kind), *_of_added_tokens_json(folder, special)):
        if token.content not in special:
            listed.setdefault((token.content, i), token)
    added, vocabulary = {}, dict(vocabulary)
    tokens = {i: token for token, i in vocabulary.items()}
    for (content, i), token in listed.items():
        known = vocabulary.setdefault(content, i)
        if known != i or tokens.setdefault(i, content) != content:
            clash = f"{content!r} has {i} and {known}" if known != i else f"{content!r} has {i}, and so has {tokens[i]!r}"
            raise ValueError(f"the files at {folder} must give every added token an id of its own; {clash}.")
        added[content] = token
    following = max(tokens, default=-1) + 1
    for content in _more_special(folder):
        if content not in added and content not in special:
            following += vocabulary.setdefault(content, following) == following
            added[content] = AddedToken(content, special=True)
    check_ids(vocabulary, folder)
    return vocabulary, tuple(sorted(added.values(), key=lambda token: vocabulary[token.content]))


def mask_takes_space(folder, mask):
    """Whether white space before a written mask belongs to it, as for RoBERTa; None if the files do not say.

    Args:
        folder: a `Path`.
        mask: the mask token.
    """
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        token = json_object(folder / file).get("mask_token")
        if isinstance(token, dict) and isinstance(token.get("lstrip"), bool):
            return token["lstrip"]
    listed = (*_of_settings(folder), *_of_tokenizer_json(folder, None))
    return next((token.lstrip for token, _ in listed if token.content == mask), None)


def rules_of(added, vocabulary):
    """`AddedToken`s by content, from strings and `AddedToken`s; a ValueError if one is not in the vocabulary."""
    rules = {}
    for token in added:
        if not isinstance(token, (str, AddedToken)):
            raise ValueError(f"added_tokens must be strings or tokenizers.AddedToken; got {type(token).__name__} {token!r:.40}.")
        rule = AddedToken(token, normalized=True) if isinstance(token, str) else token
        rules[rule.content] = rule
    unknown = [content for content in rules if not content or content not in vocabulary]
    if unknown:
        raise ValueError(f"added_tokens must be tokens of the vocabulary; got {', '.join(map(repr, unknown))}.")
    return rules


def added_tokens_decoder(tokenizer):
    """The `added_tokens_decoder` of a tokenizer_config.json, for transformers.

    Args:
        tokenizer: a `BatchTokenizer`.
    """
    rules = [tokenizer.rules[content] for content in tokenizer.added_tokens]
    if tokenizer.mask_id is not None:
        mask = tokenizer.tokens[tokenizer.mask_id]
        rules.append(AddedToken(mask, lstrip=mask in tokenizer.takes_space, special=True, normalized=False))
    return {
        str(tokenizer.vocabulary[rule.content]): {"content": rule.content, **{flag: getattr(rule, flag) for flag in FLAGS}}
        for rule in rules
    }


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


def _of_tokenizer_json(folder, kind):
    path = folder / "tokenizer.json"
    values = json_object(path)
    if kind is not None and (not values or model_type(values, path) != kind):
        return []
    return [(added_token(each, path), _id(each.get("id"), path)) for each in objects(values, "added_tokens", path)]


def _of_settings(folder):
    path = folder / "tokenizer_config.json"
    listed = section(json_object(path), "added_tokens_decoder", path)
    return [(added_token(section(listed, i, path), path), _id(i, path)) for i in listed]


def _of_added_tokens_json(folder, special):
    path = folder / "added_tokens.json"
    more = _more_special(folder)
    return [
        (added_token({"content": token, "special": token in more}, path), _id(i, path)) for token, i in json_object(path).items()
    ]


def _more_special(folder):
    """Special tokens in the settings, besides those that every tokenizer has."""
    found = []
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        values = json_object(folder / file)
        for name in MORE_SPECIAL:
            listed = values.get(name) or []
            listed = list(listed.values()) if isinstance(listed, dict) else listed
            contents = listed if isinstance(listed, list) else [None]
            contents = [token.get("content") if isinstance(token, dict) else token for token in contents]
            if not all(isinstance(content, str) and content for content in contents):
                raise ValueError(f"{name} in {folder / file} must be a list of tokens; got {values[name]!r:.80}.")
            found += contents
    return list(dict.fromkeys(found))


def _id(value, where):
    try:
        number = -1 if isinstance(value, (bool, float)) else int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ValueError(f"{where} must give every added token an id, a whole number of at least 0; got {value!r:.40}.")
    return number
