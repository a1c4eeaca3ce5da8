"""Conditions of kernels: functions of the arguments of the seam that they compute."""

import keras

from keras_bert_rebuild.kernels.traits import is_half
from keras_bert_rebuild.layers.activations import ACTIVATIONS
from keras_bert_rebuild.layers.masks import has_sequences
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention

OURS = frozenset(ACTIVATIONS.values())

# What kernels of `MultiHeadSelfAttention.attend` compute themselves.
FORMULA = (MultiHeadSelfAttention.probabilities, MultiHeadSelfAttention.scores)


def is_product(dense, *arguments):
    """Whether a `Dense` is a product with its kernel plus its bias: not quantised and without an activation."""
    # Not `dtype_policy.quantization_mode`: a layer from a file may have a map of policies, which says nothing of a single layer.
    return dense.quantization_mode is None and dense.activation is keras.activations.linear


def is_plain(dense):
    """Whether the weights of such a product are all that the layer has, no adapters."""
    return is_product(dense) and not dense.lora_enabled


def is_half_product(dense, *arguments):
    """Whether such a product is computed in half precision."""
    return is_product(dense) and is_half(dense.compute_dtype)


def activates_in_training(layer, x, training=None):
    """Whether this is training with an activation of ours: any other may have variables, for which a kernel has no gradient."""
    return bool(training) and layer.activation in OURS


def normalizes_in_training(layer, x, training=None):
    """Whether this is training of a norm with scale and offset."""
    return bool(training) and layer.gamma is not None and layer.beta is not None and not layer.rms_scaling


def drops_some(layer, x):
    """Whether any value is retained."""
    return layer.rate < 1


def drops(layer, training):
    """Whether probabilities of attention are dropped."""
    return layer.attention_dropout > 0 and bool(training)


def drops_probabilities(layer, query, key, value, mask=None, training=None, *shared):
    """Attention with dropout in training and with a mask, as `call` gives one, with no terms besides queries · keys."""
    return drops(layer, training) and mask is not None and not shared


def drops_nothing(layer, query, key, value, mask=None, training=None, *shared):
    """Attention without dropout and with a mask, as `call` gives one, with no terms besides queries · keys."""
    return not drops(layer, training) and mask is not None and not shared


def masks_keys(layer, mask):
    """Whether a mask of keys, `(batch, length)`, or of sequences is all that hides keys from queries."""
    return len(mask.shape) == 2 and layer.window is None and not layer.history_only


def masks_sequences(layer, mask):
    """Whether numbers of sequences are."""
    return masks_keys(layer, mask) and has_sequences(mask)


def norm_axis(layer):
    """The axes of the moments of a norm, a number or a tuple."""
    return tuple(layer.axis) if isinstance(layer.axis, (list, tuple)) else layer.axis
