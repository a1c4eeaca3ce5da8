"""The sum of token, segment and position embedding, as keras_bert's `get_embedding` builds it."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bert_rebuild.layers.keras_layers import Add, Embedding
from keras_bert_rebuild.layers.position_embedding import PositionEmbedding, TrigPosEmbedding
from keras_bert_rebuild.layers.token_embedding import EmbeddingSimilarity, TokenEmbedding

__all__ = ["EmbeddingSimilarity", "TokenEmbedding", "get_embedding"]


def get_embedding(
    inputs: Sequence[Any],
    token_num: int,
    pos_num: int,
    embed_dim: int,
    dropout_rate: float = 0.1,
    trainable: bool = True,
    *,
    segment_num: int = 2,
    pad_id: int = 0,
    position_offset: int = 0,
    initializer: Any = None,
    sinusoidal: bool = False,
    scale: float = 1.0,
    packed: bool = False,
) -> tuple[Any, Any]:
    """Add token, segment and position vectors.

    Args:
        inputs: the token and the segment ids first, further inputs are ignored; `[token, padding mask]` instead of the
            token ids gives an explicit mask.
        token_num: size of the vocabulary.
        pos_num: rows of the position table; 0 if positions are not added.
        embed_dim: hidden size.
        dropout_rate: ignored, accepted for keras_bert; the caller adds the dropout and the norm.
        trainable: whether the three tables are trainable.
        segment_num: rows of the segment table; 0 for a model without segments and their input.
        pad_id: the id of the padding token.
        position_offset: row of the first position.
        initializer: a function without arguments that returns the initializer of a table; None for keras_bert's.
        sinusoidal: add sinusoidal positions instead of learned ones.
        scale: factor applied to the token vectors before anything is added.
        packed: whether the padding mask has sequence numbers, see `TokenEmbedding`.

    Returns:
        The embedded sequence `(batch, length, embed_dim)` and the token table `(token_num, embed_dim)`, for the tied MLM head.
    """
    del dropout_rate

    def settings(name):
        initial = {} if initializer is None else {"embeddings_initializer": initializer()}
        return {**initial, "trainable": trainable, "name": f"Embedding-{name}"}

    tokens = TokenEmbedding(token_num, embed_dim, mask_zero=True, pad_id=pad_id, packed=packed, **settings("Token"))
    summed, table = tokens(inputs[0])
    if scale != 1:
        summed = keras.layers.Rescaling(scale, name="Embedding-Scale")(summed)
    if segment_num:
        segments = Embedding(segment_num, embed_dim, **settings("Segment"))(inputs[1])
        summed = Add(name="Embedding-Token-Segment")([summed, segments])
    if sinusoidal:
        return TrigPosEmbedding(name="Embedding-Position")(summed), table
    if not pos_num:
        return summed, table
    position = PositionEmbedding(pos_num, embed_dim, mode="add", offset=position_offset, **settings("Position"))
    return position(summed), table
