"""torch's own kernels for operations that `keras.ops` composes of several, and for Adam's steps of all variables; and gradients
with respect to inputs."""

import keras
import torch
from keras import ops
from torch.optim.adamw import adamw

from keras_bert_rebuild.kernels import operations
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


# Devices for which torch has the kernel.
DEVICES = ("cpu", "cuda")

# Steps after which Adam's bias corrections are 1 to the last bit.
MANY_STEPS = 1e9


def _change_in_place(weights, momentums, averages):
    """No averaged weights, moments of the dtype of the weight, and all on one device for which torch has the kernel."""
    alike = all(weight.dtype == momentum.dtype for weight, momentum in zip(weights, momentums, strict=True))
    devices = {weight.value.device for weight in weights}
    return not averages and alike and len(devices) == 1 and devices.pop().type in DEVICES


@kernel(operations.clip_factor, "torch")
def clip_factor(rest, gradients, norm):
    """A norm reads a gradient once, and multiplies it by one number; the plain form writes its squares to memory.

    Measured: On torch
    """
    tensors = [ops.convert_to_tensor(gradient) for gradient in gradients]
    wide = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    norms = [torch.linalg.vector_norm(tensor, dtype=wide) for tensor in tensors]
    global_norm = torch.linalg.vector_norm(torch.stack(norms))
    return norm / global_norm.clamp(min=norm) + (global_norm - global_norm)


@kernel(operations.adam_steps, "torch", when=_change_in_place)
def steps_in_place(rest, weights, momentums, averages):
    """One pass over weights and moments, and on a GPU a few kernels, in place of twenty operations for each variable.

    Measured: On torch
    """
    return apply_adam


@torch.no_grad()
def apply_adam(gradients, weights, momentums, velocities, rate, steps, beta_1, beta_2, epsilon, decay_rate):
    """A step of variables with the same rates, as `AdamW` defines it.

    Args:
        gradients: arrays or tensors.
        weights, momentums, velocities: variables of the same dtypes, updated in place.
        rate: the learning rate, a scalar tensor.
        steps: the number of steps before this one, a variable; None for no correction of the bias.
        beta_1, beta_2, epsilon: numbers.
        decay_rate: decoupled weight decay, multiplied by the rate.
    """
    values = [[variable.value for variable in variables] for variables in (weights, momentums, velocities)]
    if decay_rate and rate.device.type == "cpu":
        # Its kernel multiplies by 1 − rate · decay in the dtype of the weight: in float32 one of 1e-6 would be off by 1 %.
        lost = rate.item() * decay_rate
        for value in values[0]:
            value.add_(value, alpha=-lost)
        decay_rate = 0.0
    done = torch.full((), MANY_STEPS, device=rate.device) if steps is None else ops.convert_to_tensor(steps)
    adamw(
        values[0],
        [ops.convert_to_tensor(gradient, dtype=weights[0].dtype).contiguous() for gradient in gradients],
        *values[1:],
        [],
        list(done.float().expand(len(weights)).clone()),  # numbers of their own, which the kernel increments
        fused=True,
        amsgrad=False,
        beta1=beta_1,
        beta2=beta_2,
        lr=rate.float(),
        weight_decay=decay_rate,
        eps=epsilon,
        maximize=False,
    )
    for value in values[0]:
        torch.autograd.graph.increment_version(value)  # a change that torch's fused kernels do not count


def value_and_gradient(function, tensors):
    """The value, the other tensors and the gradient: see `gradients.value_and_gradient`.

    Args:
        function: from the tensors to a scalar and other tensors.
        tensors: a tensor, or a structure of them.
    """
    with torch.enable_grad():
        inputs = keras.tree.map_structure(lambda tensor: tensor.detach().clone().requires_grad_(True), tensors)
        value, more = function(inputs)
        flat = keras.tree.flatten(inputs)
        # Not `backward`, which would accumulate gradients of weights.
        gradients = torch.autograd.grad(value, flat, allow_unused=True) if value.requires_grad else [None] * len(flat)
    gradients = [torch.zeros_like(x) if gradient is None else gradient for gradient, x in zip(gradients, flat, strict=True)]
    detached = keras.tree.map_structure(lambda tensor: tensor.detach(), more)
    return value.detach(), detached, keras.tree.pack_sequence_as(inputs, gradients)


def without_history(function, *arguments):
    """Call a function without building a graph for a backward pass."""
    with torch.no_grad():
        return function(*arguments)
