"""Optimizers that clip, accumulate and apply the gradient of the whole batch, also across replicas.

On the replicas of a TensorFlow strategy, Keras's optimizers clip and accumulate the gradient of each replica, then sum them. That
is not the clipped gradient of the batch.
"""

import keras
from keras import ops

from keras_bert_rebuild import kernels

# Arguments that Keras's optimizers apply to the gradient of a replica.
_PER_REPLICA = ("clipnorm", "global_clipnorm", "clipvalue", "gradient_accumulation_steps")


def dense_gradients(gradients):
    """Gradients as arrays of the shapes of their variables; None for a variable without a gradient stays None.

    The gradient of a TensorFlow lookup (`tf.IndexedSlices`) contains a row once for each time it was looked up. Keras squares these
    parts for the second moment and for clipping norms, instead of their sum.
    """
    return [ops.add(gradient, 0.0) if hasattr(gradient, "dense_shape") else gradient for gradient in gradients]


class OfWholeBatch:
    """A mixin of our optimizers, before Keras's class: gradients are dense arrays, summed over replicas."""

    def apply(self, grads, trainable_variables=None):
        super().apply(kernels.sum_over_replicas(dense_gradients(grads)), trainable_variables)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        """Called by Keras's TensorFlow optimizers to sum over replicas after clipping; here they are summed already."""
        return grads_and_vars


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras's optimizer, but a step is skipped if the gradient of any replica is not finite; Keras checks only the first replica.

    Arguments are those of `keras.optimizers.LossScaleOptimizer`.
    """

    def check_finite(self, grads):
        bad = ops.cast(ops.logical_not(super().check_finite(grads)), "float32")
        return ops.equal(kernels.sum_over_replicas([bad])[0], 0)


def of_whole_batch(optimizer, scales_loss=False):
    """The optimizer to compile a model with, so that replicas apply the gradient of the whole batch; on one device, itself.

    Args:
        optimizer: one of this library, one of Keras that neither clips nor accumulates, or one of these with loss scaling.
        scales_loss: whether Keras would scale the loss, as for models in mixed float16.

    Raises:
        ValueError: an optimizer of Keras clips or accumulates on each replica.
    """
    if kernels.replica_count() == 1:
        return optimizer
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    inner = optimizer.inner_optimizer if scaled else optimizer
    used = [f"{name}={value}" for name in _PER_REPLICA if (value := getattr(inner, name, None))]
    if used and not isinstance(inner, OfWholeBatch):
        raise ValueError(
            "expected AdamW, Lamb or AdamWarmup of keras_bert_rebuild under distribute('mirrored'), since Keras's optimizers clip "
            f"and accumulate the gradient of each replica separately; got {type(inner).__name__} with {', '.join(used)}."
        )
    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        return LossScaleOptimizer(inner, optimizer.initial_scale, optimizer.dynamic_growth_steps, name=optimizer.name)
    return LossScaleOptimizer(keras.optimizers.get(inner), name="loss_scale_optimizer") if scales_loss and not scaled else optimizer
