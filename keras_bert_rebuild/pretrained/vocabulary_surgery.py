"""Add tokens to or remove tokens from a model and its vocabulary."""

import itertools
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.pretrained.rebuilt_model import check_can_be_rebuilt, rebuilt
from keras_bert_rebuild.text.normalization import split_words
from keras_bert_rebuild.text.tokenizer import split_pieces
from keras_bert_rebuild.text.vocabulary import (
    GOOGLE_PAD,
    TOKEN_CLS,
    TOKEN_MASK,
    TOKEN_PAD,
    TOKEN_SEP,
    TOKEN_UNK,
    Vocabulary,
    is_cased,
)

SPECIAL = (TOKEN_PAD, GOOGLE_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK)
UNUSED = re.compile(r"\[unused\d+\]")

TABLE, BIAS = "Embedding-Token/embeddings", "MLM-Sim/bias"


def add_tokens(
    model: keras.Model, token_dict: Mapping[str, int], tokens: Sequence[str], cased: bool = False
) -> tuple[BertModel, dict[str, int]]:
    """Append rows for new tokens, each the mean over the pieces that the token was split into before.

    Args:
        model: a model with a config, from `get_model`, `build_model` or `from_pretrained`; it is not changed.
        token_dict: its vocabulary, token to id; rows without a token are named `[unused0]` and so on.
        tokens: the new tokens; those that continue a word start with `##`.
        cased: keep case and accents when splitting a token into pieces; the token itself is added as written.

    Returns:
        A new model, not compiled, with a token table `(vocabulary + tokens, embedding)`, and its vocabulary. The bias of the MLM
        head, `(vocabulary + tokens,)`, is extended with means, too.

    Raises:
        ValueError: a token exists already or is given twice, is empty or has white space; the model has no config or is quantised;
            or the vocabulary does not belong to the model.
    """
    vocabulary, rows = _opened(model, token_dict)
    tokens = _new_tokens(vocabulary, tokens)
    rows = np.concatenate([rows, _mean_rows(vocabulary, rows, tokens, cased)])
    ids = range(len(vocabulary), len(vocabulary) + len(tokens))
    return _with_rows(model, rows), _like(token_dict, {**vocabulary, **dict(zip(tokens, ids, strict=True))})


def reuse_unused(
    model: keras.Model, token_dict: Mapping[str, int], tokens: Sequence[str], cased: bool = False
) -> tuple[BertModel, dict[str, int]]:
    """Replace `[unused…]` tokens by new ones, lowest id first; the size of the vocabulary does not change.

    Args:
        model, token_dict, tokens, cased: see `add_tokens`; the rows are means over pieces, too.

    Returns:
        A new model, not compiled, with a token table `(vocabulary, embedding)`, and its vocabulary.

    Raises:
        ValueError: there are fewer unused tokens than new ones; otherwise as in `add_tokens`.
    """
    vocabulary, rows = _opened(model, token_dict)
    tokens = _new_tokens(vocabulary, tokens)
    free_ids = [i for token, i in vocabulary.items() if UNUSED.fullmatch(token) and i != model.config.pad_token_id]
    if len(free_ids) < len(tokens):
        raise ValueError(f"{len(tokens)} unused tokens were requested, but the vocabulary has {len(free_ids)}.")
    new_names = dict(zip(free_ids, tokens, strict=False))
    rows[list(new_names)] = _mean_rows(vocabulary, rows, tokens, cased)
    return _with_rows(model, rows), _like(token_dict, {new_names.get(i, token): i for token, i in vocabulary.items()})


def prune_vocabulary(
    model: keras.Model, token_dict: Mapping[str, int], keep: Iterable[str | int]
) -> tuple[BertModel, dict[str, int]]:
    """Keep only the special tokens and the given ones, renumbered in the same order.

    A text whose tokens are all kept (see `tokens_of_corpus`) has the same tokens and hidden states as before; the probabilities of
    the MLM head are the old ones, renormalised over the kept tokens.

    Args:
        model, token_dict: see `add_tokens`.
        keep: tokens or ids. Padding, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]` are always kept.

    Returns:
        A new model, not compiled, with a token table `(kept tokens, embedding)`, and its vocabulary. `config.pad_token_id` follows
        the padding token.

    Raises:
        ValueError: `keep` has unknown tokens; otherwise as in `add_tokens`.
    """
    vocabulary, rows = _opened(model, token_dict)
    keep = list(_several("keep", keep))
    ids = {**vocabulary, **{i: i for i in vocabulary.values()}}
    unknown = [x for x in keep if x not in ids]
    if unknown:
        raise ValueError(f"keep must list tokens of the vocabulary or their ids; unknown: {unknown}.")
    kept_ids = sorted({ids[x] for x in keep} | _required_ids(model, vocabulary))
    new_ids = {old: new for new, old in enumerate(kept_ids)}
    pad = model.config.pad_token_id
    pruned = _with_rows(model, rows[kept_ids], pad_token_id=new_ids.get(pad, pad))
    return pruned, _like(token_dict, {token: new_ids[i] for token, i in vocabulary.items() if i in new_ids})


def tokens_of_corpus(token_dict: Mapping[str, int], texts: Iterable[str], cased: bool = False) -> set[str]:
    """The tokens that texts are split into, with `[UNK]` if a piece is not in the vocabulary.

    Args:
        token_dict: token to id.
        texts: an iterable of texts.
        cased: keep case and accents.

    Returns:
        A set of tokens, for `prune_vocabulary`.

    Raises:
        ValueError: `texts` is a string, not an iterable of strings.

    Example:

    >>> sorted(tokens_of_corpus({"[UNK]": 0, "un": 1, "##want": 2, "##ed": 3, "cat": 4}, ["Unwanted!"]))
    ['##ed', '##want', '[UNK]', 'un']
    """
    words = {word for text in _several("texts", texts) for word in split_words(text, cased)}
    pieces = {piece for word in words for piece in split_pieces(word, token_dict)}
    in_vocabulary = {piece for piece in pieces if piece in token_dict}
    return in_vocabulary | ({TOKEN_UNK} & token_dict.keys() if in_vocabulary != pieces else set())


def resize_vocabulary(model: keras.Model, token_dict: Mapping[str, int], size: int) -> tuple[BertModel, dict[str, int]]:
    """Remove the last tokens, or add `[unused…]` tokens whose rows are the mean of all rows.

    Args:
        model, token_dict: see `add_tokens`.
        size: size of the new vocabulary.

    Returns:
        A new model, not compiled, with a token table `(size, embedding)`, and its vocabulary.

    Raises:
        ValueError: padding or a special token would be removed; otherwise as in `add_tokens`.
    """
    vocabulary, rows = _opened(model, token_dict)
    smallest = 1 + max(_required_ids(model, vocabulary), default=0)
    if size < smallest:
        raise ValueError(f"size must be at least {smallest}, to keep padding and the special tokens; got {size}.")
    mean = rows.mean(axis=0, keepdims=True, dtype="float64").astype(rows.dtype)
    rows = np.concatenate([rows[:size], np.repeat(mean, max(size - len(rows), 0), axis=0)])
    return _with_rows(model, rows), _like(token_dict, _named({token: i for token, i in vocabulary.items() if i < size}, size))


def _opened(model, token_dict):
    """The vocabulary in id order, and per token its vector and MLM bias (0 without the head): `(vocabulary, embedding + 1)`."""
    check_can_be_rebuilt(model, "as rows are averaged; change the vocabulary first")
    size, counts = model.config.vocab_size, Counter(token_dict.values())
    wrong = {token: i for token, i in token_dict.items() if not 0 <= i < size or counts[i] > 1}
    if wrong:
        raise ValueError(f"token_dict must give every token a unique id from 0 to {size - 1}; it has {wrong}.")
    values = {variable.path: to_numpy(variable) for variable in model.weights if variable.path in (TABLE, BIAS)}
    return _named(token_dict, size), np.column_stack([values[TABLE], values.get(BIAS, np.zeros_like(values[TABLE][:, 0]))])


def _with_rows(model, rows, **changes):
    """The model rebuilt with other rows and `changes` to the config; everything else is unchanged."""
    values = {TABLE: rows[:, :-1], BIAS: rows[:, -1]}
    config = model.config.replace(vocab_size=len(rows), **changes)
    return rebuilt(model, config, lambda path, variable: values[path] if path in values else to_numpy(variable).copy())


def _named(token_dict, size):
    """A vocabulary in id order; ids without a token get unused `[unused…]` names."""
    taken = set(token_dict.values())
    names = (name for n in itertools.count() if (name := f"[unused{n}]") not in token_dict)
    unused = {next(names): i for i in range(size) if i not in taken}
    return dict(sorted({**token_dict, **unused}.items(), key=operator.itemgetter(1)))


def _like(token_dict, changed):
    """A changed vocabulary that lower-cases texts as the original does, whatever letters the new tokens have."""
    vocabulary = Vocabulary(changed)
    vocabulary.cased = is_cased(token_dict)
    return vocabulary


def _required_ids(model, vocabulary):
    """The ids of padding and the special tokens."""
    padding = {model.config.pad_token_id} & set(range(len(vocabulary)))
    return padding | {vocabulary[token] for token in SPECIAL if token in vocabulary}


def _mean_rows(vocabulary, rows, tokens, cased):
    """For every token the mean of the rows of its pieces: `(tokens, embedding + 1)`."""
    means = []
    for token in tokens:
        words = split_words(token.removeprefix("##"), cased)
        if token.startswith("##") and words:
            words[0] = "\0" + words[0]  # no piece has a NUL: it marks the word that this token continues
        pieces = [piece for word in words for piece in split_pieces(word, vocabulary) if piece != "\0"]
        ids = [vocabulary.get(piece, vocabulary.get(TOKEN_UNK)) for piece in pieces]
        if not ids or None in ids:
            raise ValueError(f"tokens must consist of pieces of the vocabulary, or it must have {TOKEN_UNK}; got {token!r}.")
        means.append(rows[ids].mean(axis=0, dtype="float64"))
    return np.reshape(means, (-1, rows.shape[1])).astype(rows.dtype)


def _new_tokens(vocabulary, tokens):
    tokens = list(_several("tokens", tokens))
    wrong = [token for token in tokens if not isinstance(token, str) or token.split() != [token]]
    if wrong:
        raise ValueError(f"tokens must be strings, not empty and without white space; got {wrong}.")
    repeated = [token for token, count in Counter(tokens).items() if count > 1 or token in vocabulary]
    if repeated:
        raise ValueError(f"tokens must be new to the vocabulary and different; got {repeated}.")
    return tokens


def _several(name, values):
    if isinstance(values, str):
        raise ValueError(f"{name} must be a list; got the string {values[:40]!r}.")
    return values
