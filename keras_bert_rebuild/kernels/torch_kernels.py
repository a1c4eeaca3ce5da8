"""torch's own kernels for operations that `keras.ops` composes of several."""

import torch
from keras import ops

from keras_bert_rebuild.kernels.kernel import FORMULA, drops_probabilities, is_product, kernel
from keras_bert_rebuild.layers import activations, products
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention


def is_on_gpu(tensor):
    """Whether a tensor is in the memory of a GPU, not that of the CPU and not symbolic."""
    return tensor.device.type == "cuda"


@kernel(activations.gelu, "torch")
def gelu(rest, x):
    """One pass over memory in place of five or eight, and in training one saved array in place of several.

    Measured: On torch
    """
    return ops.gelu(x, approximate=True)


@kernel(activations.gelu_erf, "torch")
def gelu_erf(rest, x):
    """As for `gelu`.

    Measured: On torch
    """
    return ops.gelu(x, approximate=False)


def _drops_on_gpu(layer, query, key, value, mask=None, training=None, *shared):
    """Attention dropout on a GPU, from the generator of the process: without a seed of the user's."""
    dropping = drops_probabilities(layer, query, key, value, mask, training, *shared) and is_on_gpu(query)
    return dropping and layer.dropout.seed_generator.get_config()["seed"] is None


@kernel(MultiHeadSelfAttention.attend, "torch", when=_drops_on_gpu, passes=FORMULA)
def attention_with_dropout(rest, layer, query, key, value, mask, training=None):
    """Keeps scores and probabilities out of memory; Keras's call of the same kernels does not take dropout.

    It draws from the process, and not from the seed: to draw, the host would copy numbers to the GPU, and wait for it.

    Measured: tests/kernels/test_kernels.py for the values; no GPU figure yet
    """
    # Finite, so that a query without visible keys gives finite numbers, as in the plain form.
    masked = torch.finfo(query.dtype).min / 2
    allowed = torch.where(layer.visible(mask, query), 0.0, masked).to(query.dtype)
    heads_first = (each.transpose(1, 2) for each in (query, key, value))
    attended = torch.nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=allowed, dropout_p=layer.attention_dropout)
    return attended.transpose(1, 2)


@kernel(products.product, "torch", when=is_product)
def product_with_bias(rest, dense, x, call=None):
    """torch adds the bias within the product, which saves a pass over the output, and Keras's call of a layer takes 0.2 ms.

    Measured: On torch
    """
    if dense.bias is None:
        return rest(dense, x, call)
    x, kernel, bias = (ops.convert_to_tensor(tensor, dense.compute_dtype) for tensor in (x, dense.kernel, dense.bias))
    return torch.addmm(bias, x.reshape(-1, x.shape[-1]), kernel).reshape(*x.shape[:-1], dense.units)
