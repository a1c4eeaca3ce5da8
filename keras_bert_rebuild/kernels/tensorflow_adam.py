"""Adam's step on TensorFlow as one in-place kernel; the graph would pass over memory once per operation."""

import tensorflow as tf

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.kernel import kernel
from keras_bert_rebuild.kernels.tensorflow_kernels import compile_by_xla

# Minimum number of values for which XLA's kernel, which clips and decays in the same pass, is worth its start-up cost.
LARGE = 1 << 16


def is_one_device(*arguments):
    """Whether the step is outside a `tf.distribute.Strategy`, whose variables have several copies."""
    return not tf.distribute.has_strategy()


@kernel(operations.clip_factor, "tensorflow", when=is_one_device)
def clip_factor(rest, gradients, norm):
    """The step's kernel clips in its own pass over a gradient.

    Measured: A step of AdamW with clipping
    """
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    wide = tf.float64 if any(gradient.dtype == tf.float64 for gradient in gradients) else tf.float32
    global_norm = tf.linalg.global_norm([tf.cast(gradient, wide) for gradient in gradients])
    return norm / tf.maximum(global_norm, norm) + (global_norm - global_norm)


@kernel(operations.adam_step, "tensorflow", when=lambda weight, momentum, averages: not averages and weight.dtype == momentum.dtype)
def step_in_place(rest, weight, momentum, averages):
    """Updates weight and moments in place, in one pass over memory instead of one per operation.

    Measured: A step of AdamW with clipping
    """
    return apply_adam


def apply_adam(gradient, weight, momentum, velocity, scale, rate, beta_1, beta_2, epsilon, decay):
    """g ← scale · g and w ← w · (1 − decay), then update m and v, and w ← w − rate · m / (√v + epsilon).

    Args:
        gradient: a tensor.
        weight, momentum, velocity: variables of the same dtype, updated in place.
        scale: a scalar of that dtype, or None for 1.
        rate, epsilon: scalars of that dtype, with Adam's bias corrections already applied.
        beta_1, beta_2: numbers that the dtype can represent.
        decay: a scalar of that dtype, the fraction of the weight to subtract; None for no decay.
    """
    if weight.shape.num_elements() >= LARGE and is_one_device():
        _in_one_pass(gradient, weight, momentum, velocity, scale, rate, beta_1, beta_2, epsilon, decay)
        return
    gradient = gradient if scale is None else gradient * scale
    # Everything that reads the old weight comes first.
    with tf.control_dependencies([gradient]):
        if decay is not None:
            weight.assign_sub(weight * decay)
        zero = tf.zeros((), gradient.dtype)  # powers of the betas: the kernel's own correction would round
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=momentum.handle,
            v=velocity.handle,
            beta1_power=zero,
            beta2_power=zero,
            lr=rate,
            beta1=tf.cast(beta_1, gradient.dtype),
            beta2=tf.cast(beta_2, gradient.dtype),
            epsilon=epsilon,
            grad=gradient,
        )


@compile_by_xla
def _in_one_pass(gradient, weight, momentum, velocity, scale, rate, beta_1, beta_2, epsilon, decay):
    """Adam's step as a single XLA loop."""
    gradient = gradient if scale is None else gradient * scale
    momentum.assign_add((gradient - momentum) * (1 - beta_1))
    velocity.assign_add((tf.square(gradient) - velocity) * (1 - beta_2))
    decayed = weight if decay is None else weight - weight * decay
    weight.assign(decayed - rate * momentum / (tf.sqrt(velocity) + epsilon))
