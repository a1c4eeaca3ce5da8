"""The layers of BERT, built from Keras's own `Dense`, `Embedding` and `LayerNormalization`.

Letters of the shape comments in this folder:

    B batch   L query length   S key length   H heads   K width of a head
    D hidden  F intermediate   V vocabulary   P positions
"""

from keras_bert_rebuild.layers.activations import ACTIVATIONS, gelu, gelu_erf, get_activation, quick_gelu
from keras_bert_rebuild.layers.conditional_random_field import ConditionalRandomField
from keras_bert_rebuild.layers.conv import MaskedConv1D
from keras_bert_rebuild.layers.disentangled_self_attention import DisentangledSelfAttention
from keras_bert_rebuild.layers.embedding import get_embedding
from keras_bert_rebuild.layers.extract import Extract, ExtractFirsts, FirstFeatures
from keras_bert_rebuild.layers.feed_forward import FeedForward
from keras_bert_rebuild.layers.inputs import get_inputs
from keras_bert_rebuild.layers.keras_layers import (
    Add,
    Dense,
    Dropout,
    Embedding,
    LayerNormalization,
    RMSNormalization,
    TruncatedNormal,
)
from keras_bert_rebuild.layers.masked import Masked
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_bert_rebuild.layers.pooling import (
    MaskedGlobalMaxPool1D,
    MaskedPositionPool1D,
    MaskedSquareRootPool1D,
    ScoredTokens,
    WithoutLeadingTokens,
)
from keras_bert_rebuild.layers.position_embedding import PositionEmbedding, TrigPosEmbedding
from keras_bert_rebuild.layers.relative_positions import DistanceEmbedding, QueryEmbedding, RelativeEmbedding, SegmentDifference
from keras_bert_rebuild.layers.relative_self_attention import RelativeSelfAttention
from keras_bert_rebuild.layers.residual_dense import ResidualDense
from keras_bert_rebuild.layers.task_embed import TaskEmbedding
from keras_bert_rebuild.layers.token_embedding import EmbeddingSimilarity, TokenEmbedding

__all__ = [
    "ACTIVATIONS",
    "Add",
    "ConditionalRandomField",
    "Dense",
    "DisentangledSelfAttention",
    "DistanceEmbedding",
    "Dropout",
    "Embedding",
    "EmbeddingSimilarity",
    "Extract",
    "ExtractFirsts",
    "FeedForward",
    "FirstFeatures",
    "LayerNormalization",
    "Masked",
    "MaskedConv1D",
    "MaskedGlobalMaxPool1D",
    "MaskedPositionPool1D",
    "MaskedSquareRootPool1D",
    "MultiHeadSelfAttention",
    "PositionEmbedding",
    "QueryEmbedding",
    "RMSNormalization",
    "RelativeEmbedding",
    "RelativeSelfAttention",
    "ResidualDense",
    "ScoredTokens",
    "SegmentDifference",
    "TaskEmbedding",
    "TokenEmbedding",
    "TrigPosEmbedding",
    "TruncatedNormal",
    "WithoutLeadingTokens",
    "gelu",
    "gelu_erf",
    "get_activation",
    "get_embedding",
    "get_inputs",
    "quick_gelu",
]
