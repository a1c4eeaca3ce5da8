"""TensorFlow only: several GPUs of one host, each a replica with its part of the batch, that train as one device would.

Keras takes the mean over the replicas of what each of them makes of its own part. That is what one device makes of the whole batch
only where every part has as many labels, and no gradient is clipped.
"""

import functools
import os
from pathlib import Path

import tensorflow as tf
from keras import ops

from keras_bert_rebuild.training.dense_gradients import dense_gradients

# Where a machine has a TPU, as Cloud TPU and Colab tell.
TPU_SIGNS = ("TPU_ACCELERATOR_TYPE", "TPU_NAME", "COLAB_TPU_ADDR")


def gpu_count():
    """How many GPUs TensorFlow sees."""
    return len(tf.config.list_logical_devices("GPU"))


@functools.cache  # a second one would number its reductions from the start again, and TensorFlow take them for those of the first
def mirrored_strategy():
    """The `MirroredStrategy` over all GPUs, or over all logical processors where there is none."""
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def has_tpu_of_others():
    """Whether this machine has a TPU that this TensorFlow does not drive."""
    has_one = any(name in os.environ for name in TPU_SIGNS) or Path("/dev/accel0").exists()
    return has_one and not tf.config.list_physical_devices("TPU")


def replica_count():
    """How many replicas share a batch here: more than 1 inside of a step of a `MirroredStrategy`."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def over_replicas(value, count):
    """The mean over the labels of all replicas, from that of one.

    Args:
        value: what Keras makes of the labels of this replica: their mean, divided by the number of replicas.
        count: how many labels that are, or the sum of what they count.

    Returns:
        What this replica adds to the mean over all labels, which has the gradient; that mean; and an equal part of the count of all
        labels. Outside of a step of replicas, value, value and count.
    """
    context, replicas = tf.distribute.get_replica_context(), replica_count()
    if context is None or replicas == 1:
        return value, value, count
    total = value * replicas * count
    total_of_all, count_of_all = context.all_reduce(tf.distribute.ReduceOp.SUM, [tf.stop_gradient(total), count])
    return (
        ops.divide_no_nan(total, count_of_all),
        ops.divide_no_nan(total_of_all, count_of_all),
        count_of_all / replicas,
    )


def sum_before_clipping(optimizer):
    """Let an optimizer clip the gradient of the whole batch: Keras clips that of every replica, and sums then.

    One that does so already is left alone: two phases of a run may be compiled with one optimizer.
    """
    if replica_count() == 1 or "apply" in vars(optimizer):
        return
    apply = optimizer.apply

    def apply_to_sums(grads, trainable_variables=None):
        context = tf.distribute.get_replica_context()
        dense = dense_gradients(grads)
        sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, [grad for grad in dense if grad is not None]))
        apply([None if grad is None else next(sums) for grad in dense], trainable_variables)

    optimizer.apply = apply_to_sums
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of Keras's LossScaleOptimizer
    inner._all_reduce_sum_gradients = list  # they are sums by then
