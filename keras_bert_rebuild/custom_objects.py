"""Classes by the names in keras_bert's files."""

from typing import Any

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.training.optimizers.adam_warmup import AdamWarmup


def get_custom_objects() -> dict[str, Any]:
    """A new dictionary from class name to class, for loaders that need one.

    Files of this library need none, since its classes are registered. In a model loaded with this dictionary, `LayerNormalization`,
    `Add`, `Embedding` and `Dropout` replace Keras's classes of the same name, which have another epsilon, lose the mask, have
    gradients that Keras's optimizers apply wrongly on TensorFlow, and drop the same units on all TensorFlow replicas, respectively.
    """
    return {
        "gelu": layers.gelu,
        "gelu_fallback": layers.gelu,
        "gelu_tensorflow": layers.gelu_erf,
        "LayerNormalization": layers.LayerNormalization,
        "MultiHeadAttention": layers.MultiHeadSelfAttention,
        "MultiHeadSelfAttention": layers.MultiHeadSelfAttention,
        "FeedForward": layers.FeedForward,
        "TrigPosEmbedding": layers.TrigPosEmbedding,
        "Dropout": layers.Dropout,
        "Embedding": layers.Embedding,
        "EmbeddingRet": layers.TokenEmbedding,
        "EmbeddingSim": layers.EmbeddingSimilarity,
        "PositionEmbedding": layers.PositionEmbedding,
        "TokenEmbedding": layers.TokenEmbedding,
        "EmbeddingSimilarity": layers.EmbeddingSimilarity,
        "TaskEmbedding": layers.TaskEmbedding,
        "Masked": layers.Masked,
        "Extract": layers.Extract,
        "AdamWarmup": AdamWarmup,
        "MaskedConv1D": layers.MaskedConv1D,
        "MaskedGlobalMaxPool1D": layers.MaskedGlobalMaxPool1D,
        "Add": layers.Add,
    }


def get_encoder_custom_objects() -> dict[str, Any]:
    """A new dictionary of keras_transformer's classes, those of the encoder blocks."""
    names = ("LayerNormalization", "MultiHeadAttention", "FeedForward", "TrigPosEmbedding", "EmbeddingRet", "EmbeddingSim")
    return {name: value for name, value in get_custom_objects().items() if name in names}


def set_custom_objects() -> None:
    """Register the names of `get_custom_objects` for every loader of this process, as older releases of keras_bert do."""
    keras.saving.get_custom_objects().update(get_custom_objects())
