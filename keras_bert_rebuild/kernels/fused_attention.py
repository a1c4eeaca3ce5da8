"""Attention without dropout by the fused kernels that Keras chooses, where no other kernel runs: imported after all others."""

from keras import ops

from keras_bert_rebuild.kernels.kernel import BACKENDS, FORMULA, drops_nothing, kernel
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention


@kernel(MultiHeadSelfAttention.attend, *BACKENDS, when=drops_nothing, passes=FORMULA)
def attend(rest, layer, query, key, value, mask=None, training=None):
    """`keras.ops.dot_product_attention`, for which backends have kernels that store no scores.

    Measured: tests/kernels/test_kernels.py for the values; without it the plain form computes them
    """
    return ops.dot_product_attention(query, key, value, mask=layer.visible(mask, query))
