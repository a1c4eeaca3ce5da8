"""Adam's step on TensorFlow as one in-place kernel; the graph would pass over memory once per operation."""

import tensorflow as tf

from keras_bert_rebuild.kernels.tensorflow_kernels import compile_by_xla

# Minimum number of values for which XLA's kernel, which clips and decays in the same pass, is worth its start-up cost.
LARGE = 1 << 16


def is_one_device():
    """Whether the step is outside a `tf.distribute.Strategy`, whose variables have several copies."""
    return not tf.distribute.has_strategy()


def clip_factor(gradients, norm):
    """The factor that reduces the global norm of gradients to at most `norm`, at least float32; NaN if a gradient is not finite."""
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    wide = tf.float64 if any(gradient.dtype == tf.float64 for gradient in gradients) else tf.float32
    global_norm = tf.linalg.global_norm([tf.cast(gradient, wide) for gradient in gradients])
    return norm / tf.maximum(global_norm, norm) + (global_norm - global_norm)


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
    """The same as a single XLA loop."""
    gradient = gradient if scale is None else gradient * scale
    momentum.assign_add((gradient - momentum) * (1 - beta_1))
    velocity.assign_add((tf.square(gradient) - velocity) * (1 - beta_2))
    decayed = weight if decay is None else weight - weight * decay
    weight.assign(decayed - rate * momentum / (tf.sqrt(velocity) + epsilon))
