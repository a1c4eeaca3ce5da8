"""What lies near a vector: tokens in the embedding table, tokens in the texts around."""

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_bert_rebuild.explain.attention_maps import attention_maps
from keras_bert_rebuild.explain.encoder_walk import find_encoder
from keras_bert_rebuild.explain.token_rows import vocabulary_of

# A token of the vocabulary, its id and its cosine with what was asked for.
NearToken = namedtuple("NearToken", ["token", "id", "cosine"])

# A place in texts: the text, the place in its row, the token there, and its cosine with what was asked for.
NearPlace = namedtuple("NearPlace", ["text", "place", "token", "cosine"])


def nearest_tokens(model: keras.Model, tokenizer: Any, token: str | int | npt.NDArray[Any], count: int = 10) -> list[NearToken]:
    """The tokens whose rows of the embedding table point the same way.

    Args:
        model: any model with an encoder of this library in it.
        tokenizer: its tokenizer.
        token: a token of the vocabulary, its id, or a vector `(width,)`.
        count: how many.

    Returns:
        A list of `NearToken`, the nearest first, without the token itself.

    Raises:
        ValueError: there is no such token, or the tokenizer is not one of this library.
    """
    vocabulary = vocabulary_of(tokenizer)
    table = _table(find_encoder(model).layers["Embedding-Token"])
    own = None
    if isinstance(token, str):
        if token not in vocabulary:
            raise ValueError(f"token must be one of the {len(vocabulary)} of the vocabulary; got {token!r}.")
        own = vocabulary[token]
    elif np.ndim(token) == 0:
        own = int(token)
    if own is not None and not 0 <= own < len(table):
        raise ValueError(f"an id must be from 0 to {len(table) - 1}, a row of the token table; got {own}.")
    vector = np.asarray(token, "float32") if own is None else table[own]
    if vector.shape != table.shape[1:]:
        raise ValueError(f"a vector must have shape {table.shape[1:]}, as rows of the token table; got {vector.shape}.")
    names = {i: name for name, i in vocabulary.items()}
    near = _by_cosine(table, vector, count + 1)
    return [NearToken(names.get(i, "?"), i, cosine) for i, cosine in near if i != own][:count]


def nearest_in_texts(
    model: keras.Model, tokenizer: Any, texts: Sequence[str], text: int, place: int, layer: int = -1, count: int = 10
) -> list[NearPlace]:
    """The tokens in texts whose vectors behind a layer point the same way: what stands in a similar context.

    Args:
        model: any model with an encoder of this library in it.
        tokenizer: its tokenizer.
        texts: a list of texts.
        text, place: which vector: the number of its text, and its place in the row, special tokens counted.
        layer: number of the layer, from 0, negative from the end.
        count: how many.

    Returns:
        A list of `NearPlace`, the nearest first, without the place itself.

    Raises:
        ValueError: there is no such text or place.
    """
    maps = attention_maps(model, texts=texts, tokenizer=tokenizer, layers=[layer], heads=[0], vectors=True)
    if not (0 <= text < len(maps.mask) and 0 <= place < maps.mask[text].sum()):
        lengths = ", ".join(str(n) for n in maps.mask.sum(1)[:10])
        raise ValueError(f"text and place must be in texts of {lengths} tokens; got {text} and {place}.")
    outputs, tokens = maps.outputs, maps.tokens
    assert outputs is not None  # with `vectors`
    assert tokens is not None  # with a tokenizer
    places = np.argwhere(maps.mask)
    near = _by_cosine(outputs[0][maps.mask], outputs[0, text, place], count + 1)
    found = [(*places[i].tolist(), cosine) for i, cosine in near]
    return [NearPlace(t, p, tokens[t][p], cosine) for t, p, cosine in found if (t, p) != (text, place)][:count]


def _table(layer):
    """The token table as it is looked up, `(vocabulary, width)`: also of a quantised layer."""
    return ops.convert_to_numpy(ops.cast(ops.stop_gradient(layer(ops.zeros((1, 1), "int32"))[1]), "float32"))


def _by_cosine(vectors, vector, count):
    """Rows and their cosines with a vector, the largest first; 0 for rows of zeros."""
    sizes = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    cosines = vectors @ vector / np.where(sizes > 0, sizes, 1)
    return [(i, float(cosines[i])) for i in np.argsort(-cosines, kind="stable")[:count].tolist()]
