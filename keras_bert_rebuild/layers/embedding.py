"""The sum of token, segment and position embedding, as keras_bert's `get_embedding` builds it."""

import keras

from keras_bert_rebuild.layers.add import Add
from keras_bert_rebuild.layers.embedding_similarity import EmbeddingSimilarity
from keras_bert_rebuild.layers.position_embedding import PositionEmbedding
from keras_bert_rebuild.layers.token_embedding import TokenEmbedding

__all__ = ["EmbeddingSimilarity", "TokenEmbedding", "get_embedding"]


def get_embedding(inputs, token_num, pos_num, embed_dim, dropout_rate=0.1, trainable=True, *, segment_num=2):
    """Add the vectors of token, segment and position.

    Args:
        inputs: the token and the segment ids first, further inputs are not looked at; `[token, padding mask]` in place of the
            token ids gives an explicit mask.
        token_num: size of the vocabulary.
        pos_num: rows of the position table, the longest sequence.
        embed_dim: hidden size.
        dropout_rate: accepted as in keras_bert; the dropout and the norm behind it are the caller's.
        trainable: whether the three tables are trained.
        segment_num: rows of the segment table.

    Returns:
        The embedded sequence `(batch, length, embed_dim)` and the token table `(token_num, embed_dim)`, for the tied MLM head.
    """
    del dropout_rate
    tokens, weights = TokenEmbedding(token_num, embed_dim, mask_zero=True, trainable=trainable, name="Embedding-Token")(inputs[0])
    segments = keras.layers.Embedding(segment_num, embed_dim, trainable=trainable, name="Embedding-Segment")(inputs[1])
    summed = Add(name="Embedding-Token-Segment")([tokens, segments])
    position = PositionEmbedding(pos_num, embed_dim, mode="add", trainable=trainable, name="Embedding-Position")
    return position(summed), weights
