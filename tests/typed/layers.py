"""Layers, losses and schedules in a custom model."""

import keras

from keras_bert_rebuild import gelu
from keras_bert_rebuild.layers import (
    ACTIVATIONS,
    Add,
    EmbeddingSimilarity,
    FeedForward,
    LayerNormalization,
    MultiHeadSelfAttention,
    PositionEmbedding,
    TokenEmbedding,
    get_activation,
    get_inputs,
)
from keras_bert_rebuild.training.losses import PretrainingLoss

tokens = get_inputs(seq_len=16)[0]
x, table = TokenEmbedding(100, 8, name="Tokens")(tokens)
x = PositionEmbedding(16, 8, mode="add")(x)
x = LayerNormalization()(Add()([x, MultiHeadSelfAttention(2, attention_dropout=0.1)(x)]))
x = FeedForward(32, activation=gelu)(x)
model = keras.Model(tokens, EmbeddingSimilarity()([x, table]))
model.compile("adam", PretrainingLoss(max_predictions=4))
print(get_activation("gelu"), sorted(ACTIVATIONS))
