"""TensorFlow only: several GPUs of one host, each a replica with part of the batch, and sums and means over replicas."""

import functools
import os
from pathlib import Path

import tensorflow as tf
from keras import ops

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.kernel import kernel

# Set on machines with a TPU, by Cloud TPU and Colab.
TPU_SIGNS = ("TPU_ACCELERATOR_TYPE", "TPU_NAME", "COLAB_TPU_ADDR")


def gpu_count():
    """The number of GPUs that TensorFlow sees."""
    return len(tf.config.list_logical_devices("GPU"))


@functools.cache  # a second strategy would number its reductions from 0 again, and TensorFlow would mix them up with the first
def mirrored_strategy():
    """The `MirroredStrategy` over all GPUs, or over all logical CPUs if there are none."""
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def has_tpu_of_others():
    """Whether this machine has a TPU that the installed TensorFlow does not support."""
    has_one = any(name in os.environ for name in TPU_SIGNS) or Path("/dev/accel0").exists()
    return has_one and not tf.config.list_physical_devices("TPU")


@kernel(operations.replica_count, "tensorflow")
def count_replicas(rest=None):
    """Only a TensorFlow strategy has replicas, inside a step more than 1; JAX computes a batch over devices as one array.

    Measured: none: it returns a number
    """
    return tf.distribute.get_strategy().num_replicas_in_sync


def are_several(*arguments):
    """Whether this is a step with several replicas."""
    return tf.distribute.get_replica_context() is not None and count_replicas() > 1


@kernel(operations.sum_over_replicas, "tensorflow", when=are_several)
def sum_gradients(rest, gradients):
    """Keras clips the gradient of each replica and then sums, which is not the clipped gradient of the batch.

    Measured: tests/training/distributed/test_replicas.py: the losses of one device
    """
    context = tf.distribute.get_replica_context()
    sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, [gradient for gradient in gradients if gradient is not None]))
    return [None if gradient is None else next(sums) for gradient in gradients]


@kernel(operations.mean_over_replicas, "tensorflow", when=are_several)
def mean_of_labels(rest, value, count):
    """Keras takes the mean of the replicas' means, although their numbers of labels differ.

    Measured: tests/training/distributed/test_replicas.py: the losses of one device
    """
    context, replicas = tf.distribute.get_replica_context(), count_replicas()
    total = value * replicas * count
    total_of_all, count_of_all = context.all_reduce(tf.distribute.ReduceOp.SUM, [tf.stop_gradient(total), count])
    return (
        ops.divide_no_nan(total, count_of_all),
        ops.divide_no_nan(total_of_all, count_of_all),
        count_of_all / replicas,
    )
