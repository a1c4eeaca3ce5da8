"""The embedding of a text: the vectors that are added for every token, and their sum before and after the norm."""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.explain.token_rows import rows_of_texts
from keras_bert_rebuild.models.find_encoder import find_encoder


@dataclass(frozen=True)
class EmbeddingAnatomy:
    """The embedding of one text or pair, per token, as float32 arrays."""

    tokens: tuple
    """The tokens as the vocabulary writes them, special ones included."""

    surfaces: tuple | None
    """The characters of every token in the text, "" at special ones; None for keras_bert's `Tokenizer`."""

    pieces: tuple
    """For every token, all tokens of the word it is part of."""

    ids: np.ndarray
    """Row of each token in the token table, `(length,)`."""

    segments: np.ndarray
    """Row of each token in the segment table, `(length,)`."""

    positions: np.ndarray
    """Row of each token in the position table, or its position from 0 if there is none, `(length,)`."""

    sentences: np.ndarray
    """0 at tokens of the first text, 1 at those of the second, -1 at special tokens, `(length,)`."""

    parts: tuple
    """The names of the vectors: "token" (scaled, if the model scales it), and "segment" and "position" if the model adds them."""

    vectors: np.ndarray
    """The vectors that are added, `(parts, length, width)`."""

    summed: np.ndarray
    """Their sum, before the norm, `(length, width)`."""

    normalised: np.ndarray
    """The sum after the norm, if there is one, `(length, width)`: the input of the first block or of ALBERT's projection."""

    norms: np.ndarray
    """Euclidean norms of `vectors`, `(parts, length)`."""

    norms_summed: np.ndarray
    """Norms of `summed`, `(length,)`."""

    norms_normalised: np.ndarray
    """Norms of `normalised`, `(length,)`."""

    cosines: np.ndarray
    """Cosine similarities between the vectors of a token, `(length, parts, parts)`; 0 if one is zero."""

    cosines_summed: np.ndarray
    """Cosine similarity of each vector to the sum, `(parts, length)`: which one dominates the direction of the sum."""

    cosines_normalised: np.ndarray
    """Cosine similarity of each vector to the normalised sum, `(parts, length)`."""


def embedding_anatomy(
    model: keras.Model, tokenizer: Any, text: str, pair: str | None = None, max_len: int | None = None
) -> EmbeddingAnatomy:
    """Decompose the embedding of a text into the vectors that are added.

    Args:
        model: any model that contains an encoder of this library.
        tokenizer: its tokenizer.
        text: a text.
        pair: a second text, or None.
        max_len: truncate to this many tokens; None to refuse a text that is too long.

    Returns:
        An `EmbeddingAnatomy`.

    Raises:
        ValueError: the model has no encoder, has a task embedding, or projects the embedding before its norm; or the text is not a
            string or is too long.
    """
    encoder = find_encoder(model)
    layers = encoder.layers
    if "Embedding-Task" in layers:
        raise ValueError("the model must not have Embedding-Task; a text does not determine the task.")
    position = layers.get("Embedding-Position")
    if "Embedding-Norm" in layers and layers["Embedding-Token"].output_dim != layers["Embedding-Norm"].gamma.shape[0]:
        raise ValueError(
            "the embedding must be normalised before it is projected; in this model the norm comes after Embedding-Mapping."
        )
    longest = encoder.host.inputs[0].shape[1] or encoder.max_length
    rows = rows_of_texts(tokenizer, [text], None if pair is None else [pair], max_len, longest=longest)
    ids, segments = (ops.convert_to_tensor(array.astype("int32")) for array in (rows.ids, rows.segments))
    summed, _ = layers["Embedding-Token"](ids)
    if "Embedding-Scale" in layers:
        summed = layers["Embedding-Scale"](summed)
    vectors = {"token": summed}
    if "Embedding-Segment" in layers:
        vectors["segment"] = layers["Embedding-Segment"](segments)
        summed = layers["Embedding-Token-Segment"]([summed, vectors["segment"]])
    if position is not None:
        vectors["position"] = position(ops.zeros_like(summed))
        summed = position(summed)
    normalised = layers["Embedding-Norm"](summed) if "Embedding-Norm" in layers else summed
    parts, summed, normalised = np.stack([_array(v) for v in vectors.values()]), _array(summed), _array(normalised)
    return EmbeddingAnatomy(
        tokens=rows.tokens[0],
        surfaces=None if rows.surfaces is None else rows.surfaces[0],
        pieces=_pieces(rows),
        ids=rows.ids[0],
        segments=rows.segments[0],
        positions=np.arange(rows.ids.shape[1]) + (0 if position is None else position.offset),
        sentences=rows.sentences[0],
        parts=tuple(vectors),
        vectors=parts,
        summed=summed,
        normalised=normalised,
        norms=np.linalg.norm(parts, axis=-1),
        norms_summed=np.linalg.norm(summed, axis=-1),
        norms_normalised=np.linalg.norm(normalised, axis=-1),
        cosines=np.stack([cosines(parts, part) for part in parts]).transpose(2, 0, 1),
        cosines_summed=cosines(parts, summed),
        cosines_normalised=cosines(parts, normalised),
    )


def cosines(a, b):
    """Cosine similarities along the last axis; 0 if either vector is zero."""
    size = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return (a * b).sum(-1) / np.where(size > 0, size, 1)


def _array(tensor):
    """The first row of a batch, float32."""
    return ops.convert_to_numpy(ops.cast(ops.stop_gradient(tensor), "float32"))[0]


def _pieces(rows):
    """For every token, all tokens of its word; a special token is a word of its own."""
    words = enumerate(zip(rows.sentences[0].tolist(), rows.words[0].tolist(), strict=True))
    keys = [(side, word) if word >= 0 else i for i, (side, word) in words]
    pieces = {}
    for key, token in zip(keys, rows.tokens[0], strict=True):
        pieces.setdefault(key, []).append(token)
    return tuple(tuple(pieces[key]) for key in keys)
