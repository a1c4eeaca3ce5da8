"""torch's own kernels for operations that `keras.ops` composes of several."""

import torch
from keras import ops

from keras_bert_rebuild.kernels.sequences import visible_pairs


def is_on_gpu(tensor):
    """Whether a tensor is in the memory of a GPU, not that of the CPU and not symbolic."""
    return tensor.device.type == "cuda"


def gelu(x, approximate):
    """See `operations.gelu`."""
    return ops.gelu(x, approximate=approximate == "tanh")


def attention_with_dropout(query, key, value, mask, causal, dropout, seed):
    """Attention with dropout of the probabilities, which torch's kernels for GPUs do not store; they draw from the process.

    Args:
        query, key, value, mask, causal, dropout: see `operations.attention`.
        seed: not drawn from, since it is not one of the user's; to draw, the host would copy numbers to the GPU, and wait for it.
    """
    # Finite, so that a query without visible keys gives finite numbers, as in the plain form.
    masked = torch.finfo(query.dtype).min / 2
    allowed = torch.where(visible_pairs(mask, causal), 0.0, masked).to(query.dtype)
    heads_first = (each.transpose(1, 2) for each in (query, key, value))
    attended = torch.nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=allowed, dropout_p=dropout)
    return attended.transpose(1, 2)


def product_with_bias(dense, x, call):
    """The output of a `Dense` for `(..., width)`, with the bias added by the product; without a bias that of `call`."""
    if dense.bias is None:
        return call(x)
    x, kernel, bias = (ops.convert_to_tensor(tensor, dense.compute_dtype) for tensor in (x, dense.kernel, dense.bias))
    return torch.addmm(bias, x.reshape(-1, x.shape[-1]), kernel).reshape(*x.shape[:-1], dense.units)
