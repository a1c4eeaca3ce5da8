"""Nearest neighbours of a vector: tokens in the embedding table, and tokens in texts."""

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_bert_rebuild.explain.attention_maps import attention_maps
from keras_bert_rebuild.explain.token_rows import vocabulary_of
from keras_bert_rebuild.models.find_encoder import find_encoder

# A token of the vocabulary, its id, and its cosine similarity to the query.
NearToken = namedtuple("NearToken", ["token", "id", "cosine"])

# A token in texts: the index of its text, its position, the token, and its cosine similarity to the query.
NearPlace = namedtuple("NearPlace", ["text", "position", "token", "cosine"])


def nearest_tokens(model: keras.Model, tokenizer: Any, token: str | int | npt.NDArray[Any], count: int = 10) -> list[NearToken]:
    """The tokens whose embeddings have the highest cosine similarity.

    Args:
        model: any model that contains an encoder of this library.
        tokenizer: its tokenizer.
        token: a token of the vocabulary, its id, or a vector `(width,)`.
        count: number of tokens to return.

    Returns:
        A list of `NearToken`, nearest first, without the token itself.

    Raises:
        ValueError: the token does not exist, or the tokenizer is not one of this library.
    """
    vocabulary = vocabulary_of(tokenizer)
    table = _table(find_encoder(model).layers["Embedding-Token"])
    token_id = None
    if isinstance(token, str):
        if token not in vocabulary:
            raise ValueError(f"token must be one of the {len(vocabulary)} tokens of the vocabulary; got {token!r}.")
        token_id = vocabulary[token]
    elif np.ndim(token) == 0:
        token_id = int(token)
    if token_id is not None and not 0 <= token_id < len(table):
        raise ValueError(f"an id must be from 0 to {len(table) - 1}, a row of the token table; got {token_id}.")
    vector = np.asarray(token, "float32") if token_id is None else table[token_id]
    if vector.shape != table.shape[1:]:
        raise ValueError(f"a vector must have the shape of a row of the token table, {table.shape[1:]}; got {vector.shape}.")
    names = {i: name for name, i in vocabulary.items()}
    near = _by_cosine(table, vector, count + 1)
    return [NearToken(names.get(i, "?"), i, cosine) for i, cosine in near if i != token_id][:count]


def nearest_in_texts(
    model: keras.Model, tokenizer: Any, texts: Sequence[str], text: int, position: int, layer: int = -1, count: int = 10
) -> list[NearPlace]:
    """The tokens in texts whose vectors after a layer have the highest cosine similarity: tokens in similar contexts.

    Args:
        model: any model that contains an encoder of this library.
        tokenizer: its tokenizer.
        texts: a list of texts.
        text, position: the vector to compare with: index of the text, and position in it, counting special tokens.
        layer: index of the layer, from 0, negative from the end.
        count: number of tokens to return.

    Returns:
        A list of `NearPlace`, nearest first, without the token itself.

    Raises:
        ValueError: the text or the position does not exist.
    """
    maps = attention_maps(model, texts=texts, tokenizer=tokenizer, layers=[layer], heads=[0], vectors=True)
    if not (0 <= text < len(maps.mask) and 0 <= position < maps.mask[text].sum()):
        lengths = ", ".join(str(n) for n in maps.mask.sum(1)[:10])
        raise ValueError(f"text and position must be within texts of {lengths} tokens; got {text} and {position}.")
    outputs, tokens = maps.outputs, maps.tokens
    assert outputs is not None  # with `vectors`
    assert tokens is not None  # with a tokenizer
    positions = np.argwhere(maps.mask)
    near = _by_cosine(outputs[0][maps.mask], outputs[0, text, position], count + 1)
    neighbours = [(*positions[i].tolist(), cosine) for i, cosine in near]
    return [NearPlace(t, p, tokens[t][p], cosine) for t, p, cosine in neighbours if (t, p) != (text, position)][:count]


def _table(layer):
    """The token table as it is looked up, `(vocabulary, width)`, dequantised if necessary."""
    return ops.convert_to_numpy(ops.cast(ops.stop_gradient(layer(ops.zeros((1, 1), "int32"))[1]), "float32"))


def _by_cosine(vectors, vector, count):
    """Indices of rows and their cosine similarities to a vector, the largest first; 0 for rows of zeros."""
    sizes = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    cosines = vectors @ vector / np.where(sizes > 0, sizes, 1)
    return [(i, float(cosines[i])) for i in np.argsort(-cosines, kind="stable")[:count].tolist()]
