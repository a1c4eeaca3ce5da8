"""The tokens that a folder of Hugging Face adds to its vocabulary: one token each, wherever they are written in a text."""

from keras_bert_rebuild.text.json_file import json_object
from keras_bert_rebuild.text.tokens import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_SEP, TOKEN_UNK

# These are no text: a `[MASK]` in one stands for itself only where it is asked for.
SPECIAL = (GOOGLE_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK)


def with_added_tokens(vocabulary, folder, kind="WordPiece", special=SPECIAL):
    """A vocabulary with the tokens that the files beside it add.

    Args:
        vocabulary: a dictionary from token to id.
        folder: a `Path`; read are tokenizer.json, `added_tokens_decoder` of tokenizer_config.json and added_tokens.json.
        kind: the type of the model in a tokenizer.json; one of another type belongs to another vocabulary.
        special: tokens that are not added ones though the files list them.

    Returns:
        The vocabulary, and those of its tokens that were added, by id.

    Raises:
        ValueError: a token or an id is there twice, or one of the files is damaged.
    """
    values = json_object(folder / "tokenizer.json")
    told = values.get("added_tokens") or () if (values.get("model") or {}).get("type") == kind else ()
    told = [(token.get("content"), token.get("id")) for token in told]
    settings = json_object(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
    told += [(token.get("content"), int(i)) for i, token in settings.items()]
    told += json_object(folder / "added_tokens.json").items()
    added = {}
    tokens = {i: token for token, i in vocabulary.items()}
    for token, i in told:
        if token in special:
            continue
        known = {**vocabulary, **added}.get(token, i)
        if known != i or tokens.setdefault(i, token) != token:
            other = known if known != i else repr(tokens[i])
            raise ValueError(
                f"the files at {folder} must give every added token an id of its own; {token!r} has {i}, beside {other}."
            )
        added[token] = i
    return {**vocabulary, **added}, tuple(sorted(added, key=added.get))


def checked_added_tokens(added, vocabulary):
    """Added tokens as a tuple, all of them tokens of the vocabulary; else a ValueError."""
    unknown = [token for token in added if not token or token not in vocabulary]
    if unknown:
        raise ValueError(f"added_tokens must be tokens of the vocabulary; got {', '.join(map(repr, unknown))}.")
    return tuple(added)


def added_tokens_decoder(tokenizer):
    """`added_tokens_decoder` of a tokenizer_config.json, which transformers reads.

    Args:
        tokenizer: one whose added tokens are found in any case where it does not keep case.
    """
    return {
        str(tokenizer.vocabulary[token]): {
            "content": token,
            "lstrip": False,
            "normalized": not tokenizer.cased,
            "rstrip": False,
            "single_word": False,
            "special": False,
        }
        for token in tokenizer.added_tokens
    }
