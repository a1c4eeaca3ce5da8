"""Adam's steps on torch by the kernel of its own optimizer, for all variables at once."""

import torch
from keras import ops
from torch.optim.adamw import adamw

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.kernel import kernel

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
