"""Attention maps and an anatomy of random numbers, without a model."""

import numpy as np

from helpers.reference import softmax
from keras_bert_rebuild.explain.attention_maps import AttentionMaps
from keras_bert_rebuild.explain.embedding_anatomy import EmbeddingAnatomy


def random_maps(rng, layers=2, heads=3, length=9, width=4, tokens=None):
    """Maps of a pair whose probabilities are the softmax of its queries and keys."""
    queries, keys = (rng.normal(0, 1.5, (layers, 1, heads, length, width)).astype("float32") for _ in range(2))
    mask = np.ones((1, length), bool)
    sentences = (np.arange(length) >= length // 2).astype(int)
    sentences[[0, length // 2, -1]] = -1
    return AttentionMaps(
        probabilities=softmax(queries @ keys.swapaxes(-1, -2) / np.float32(width**0.5)).astype("float32"),
        layers=tuple(range(layers)),
        heads=tuple(range(heads)),
        ids=np.arange(length)[None],
        mask=mask,
        segments=np.maximum(sentences, 0)[None],
        sentences=sentences[None],
        words=None,
        tokens=(tuple(tokens or (f"word{i}" if side >= 0 else "[SEP]" for i, side in enumerate(sentences))),),
        surfaces=None,
        scale=width**0.5,
        queries=queries,
        keys=keys,
        values=keys,
    )


def random_anatomy(rng, maps, size=16):
    """An anatomy of the tokens of maps; its norm doubles."""
    tokens = maps.tokens[0]
    vectors = rng.normal(0, 1, (3, len(tokens), size)).astype("float32")
    summed = vectors.sum(0)
    norms, whole = np.linalg.norm(vectors, axis=-1), np.linalg.norm(summed, axis=-1)
    with_sum = (vectors * summed).sum(-1) / norms / whole
    return EmbeddingAnatomy(
        tokens=tokens,
        surfaces=None,
        pieces=tuple((token,) for token in tokens),
        ids=maps.ids[0],
        segments=maps.segments[0],
        positions=np.arange(len(tokens)),
        sentences=maps.sentences[0],
        parts=("token", "segment", "position"),
        vectors=vectors,
        summed=summed,
        normalised=2 * summed,
        norms=norms,
        norms_summed=whole,
        norms_normalised=2 * whole,
        cosines=np.einsum("atd,btd->tab", vectors, vectors) / norms.T[:, :, None] / norms.T[:, None, :],
        cosines_summed=with_sum,
        cosines_normalised=with_sum,
    )
