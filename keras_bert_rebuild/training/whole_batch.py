"""Optimizers that clip, accumulate and step by the gradient of the whole batch, also where replicas share it.

On the replicas of a TensorFlow strategy, Keras's optimizers clip and accumulate the gradient of each replica, and sum afterwards.
That is not the clipped gradient of the batch.
"""

import keras
from keras import ops

from keras_bert_rebuild import kernels

# What an optimizer of Keras's does with the gradient of a replica.
_OF_REPLICAS = ("clipnorm", "global_clipnorm", "clipvalue", "gradient_accumulation_steps")


def dense_gradients(gradients):
    """Gradients of which each is an array of the shape of its variable; None, where a variable has none, stays None.

    What a TensorFlow look-up gives as gradient (`tf.IndexedSlices`) names a row once for each time it was looked up. Keras squares
    these parts, for the second moment and for norms to clip by, where the square of their sum is meant.
    """
    return [ops.add(gradient, 0.0) if hasattr(gradient, "dense_shape") else gradient for gradient in gradients]


class OfWholeBatch:
    """What our optimizers inherit before Keras's class: they are given arrays, summed over replicas."""

    def apply(self, grads, trainable_variables=None):
        super().apply(kernels.sum_over_replicas(dense_gradients(grads)), trainable_variables)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        """What Keras's TensorFlow optimizers call to sum over replicas, after clipping: here they are sums already."""
        return grads_and_vars


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras's, which skips a step where the gradient of any replica is not finite; Keras looks at the first replica alone.

    Arguments are those of `keras.optimizers.LossScaleOptimizer`.
    """

    def check_finite(self, grads):
        bad = ops.cast(ops.logical_not(super().check_finite(grads)), "float32")
        return ops.equal(kernels.sum_over_replicas([bad])[0], 0)


def of_whole_batch(optimizer, scales_loss=False):
    """The optimizer to compile a model with, so that replicas step by the gradient of the whole batch; on one device, itself.

    Args:
        optimizer: one of this library, one of Keras's that neither clips nor accumulates, or such a one that scales the loss.
        scales_loss: whether Keras would scale the loss, which it does for models of mixed float16.

    Raises:
        ValueError: an optimizer of Keras's clips or accumulates among replicas.
    """
    if kernels.replica_count() == 1:
        return optimizer
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    inner = optimizer.inner_optimizer if scaled else optimizer
    asked = [f"{name}={value}" for name in _OF_REPLICAS if (value := getattr(inner, name, None))]
    if asked and not isinstance(inner, OfWholeBatch):
        raise ValueError(
            "expected AdamW, Lamb or AdamWarmup of keras_bert_rebuild under distribute('mirrored'), since Keras's optimizers clip "
            f"and accumulate the gradient of each replica alone; got {type(inner).__name__} with {', '.join(asked)}."
        )
    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        return LossScaleOptimizer(inner, optimizer.initial_scale, optimizer.dynamic_growth_steps, name=optimizer.name)
    return LossScaleOptimizer(keras.optimizers.get(inner), name="loss_scale_optimizer") if scales_loss and not scaled else optimizer
