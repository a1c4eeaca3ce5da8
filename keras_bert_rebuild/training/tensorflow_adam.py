"""Adam's step on TensorFlow as one kernel that works in place, where the graph would pass over memory for every operation."""

import tensorflow as tf


def apply_adam(gradient, weight, momentum, velocity, rate, beta_1, beta_2, epsilon, decay):
    """w ← w · (1 − decay), then m and v take in the gradient and w ← w − rate · m / (√v + epsilon).

    Args:
        gradient: a tensor.
        weight, momentum, velocity: variables of the same dtype, which are changed.
        rate, epsilon: scalars of that dtype, with Adam's corrections already in them.
        beta_1, beta_2: numbers.
        decay: a scalar of that dtype, the share of the weight that is taken away; None for none.
    """
    # What reads the old weight comes before.
    with tf.control_dependencies([gradient]):
        if decay is not None:
            weight.assign_sub(weight * decay)
        zero = tf.zeros((), gradient.dtype)  # powers of the betas: no correction is left to the kernel, which rounds it
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
