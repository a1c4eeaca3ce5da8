"""keras_bert's import path of the model and its batches."""

import keras
import numpy as np

from keras_bert_rebuild.custom_objects import get_custom_objects, get_encoder_custom_objects, set_custom_objects
from keras_bert_rebuild.data.pretraining.gen_batch_inputs import gen_batch_inputs
from keras_bert_rebuild.layers import (
    EmbeddingSimilarity,
    Extract,
    LayerNormalization,
    Masked,
    PositionEmbedding,
    TaskEmbedding,
    TokenEmbedding,
    gelu,
    get_embedding,
    get_inputs,
)
from keras_bert_rebuild.models.get_encoders import get_encoder_component, get_encoders
from keras_bert_rebuild.models.get_model import get_model, get_token_embedding
from keras_bert_rebuild.text.vocabulary import TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK, get_base_dict
from keras_bert_rebuild.training.compile_model import compile_model
from keras_bert_rebuild.training.optimizers.adam_warmup import AdamWarmup

__all__ = [
    "TOKEN_CLS",
    "TOKEN_MASK",
    "TOKEN_PAD",
    "TOKEN_SEP",
    "TOKEN_UNK",
    "AdamWarmup",
    "EmbeddingSimilarity",
    "Extract",
    "LayerNormalization",
    "Masked",
    "PositionEmbedding",
    "TaskEmbedding",
    "TokenEmbedding",
    "compile_model",
    "gelu",
    "gen_batch_inputs",
    "get_base_dict",
    "get_custom_objects",
    "get_embedding",
    "get_encoder_component",
    "get_encoder_custom_objects",
    "get_encoders",
    "get_inputs",
    "get_model",
    "get_token_embedding",
    "keras",
    "np",
    "set_custom_objects",
]
