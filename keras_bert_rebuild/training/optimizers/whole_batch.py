"""Optimizers that clip, accumulate and apply the gradient of the whole batch, also across replicas.

Under a TensorFlow strategy, Keras's optimizers clip and accumulate the gradient of each replica and then sum them, which is not the
clipped gradient of the batch.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild import kernels

# Arguments that Keras's optimizers apply to the gradient of each replica.
_PER_REPLICA = ("clipnorm", "global_clipnorm", "clipvalue")


def dense_gradients(gradients):
    """Gradients as dense arrays in the shapes of their variables; None, for variables without a gradient, stays None.

    The gradient of a TensorFlow lookup (`tf.IndexedSlices`) has a row for each time that a row was looked up. For second moments
    and norms, Keras would square these rows separately instead of their sum.
    """
    return [ops.add(gradient, 0.0) if hasattr(gradient, "dense_shape") else gradient for gradient in gradients]


class OfWholeBatch:
    """A mixin of our optimizers, before Keras's class: gradients are dense arrays, summed over replicas.

    Keras's reader of legacy .h5 files builds an optimizer with an empty list, then sets its weights: both wait for the real
    variables.
    """

    waiting_weights: list[Any] | None = None

    def build(self, var_list):
        if self.built or not var_list:
            return
        _check_accumulation(self)
        super().build(var_list)
        self.prepare(var_list)
        if self.waiting_weights is not None:
            state, self.waiting_weights = self.waiting_weights, None
            self.restore(state)

    def prepare(self, var_list: Sequence[Any]) -> None:
        """Called once with the variables to train, to add what the optimizer keeps for each of them.

        In a TensorFlow graph `update_step` is called with backend variables, which have no path.
        """

    def set_weights(self, weights):
        if self.built:
            super().set_weights(weights)
        else:
            self.waiting_weights = [np.array(weight) for weight in weights]  # the file may be closed later

    def restore(self, state: list[Any]) -> None:
        """Set the weights that a legacy file had."""
        self.set_weights(state)

    def apply(self, grads, trainable_variables=None):
        super().apply(kernels.sum_over_replicas(dense_gradients(grads)), trainable_variables)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        """Called by Keras's TensorFlow optimizers to sum over replicas after clipping; the gradients are summed already."""
        return grads_and_vars


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras's loss scaling, but it skips a step if any replica has a non-finite gradient; Keras checks only the first replica.

    Arguments are those of `keras.optimizers.LossScaleOptimizer`.
    """

    def check_finite(self, grads):
        bad = ops.cast(ops.logical_not(super().check_finite(grads)), "float32")
        return ops.equal(kernels.sum_over_replicas([bad])[0], 0)


def _check_accumulation(optimizer):
    steps = getattr(optimizer, "gradient_accumulation_steps", None)
    if steps and kernels.replica_count() > 1:
        raise ValueError(
            f"gradient_accumulation_steps must be None under distribute('mirrored'), where Keras cannot accumulate; got {steps}: "
            "use more devices, smaller batches, or distribute('data') on JAX."
        )


def whole_batch_optimizer(optimizer, scales_loss=False):
    """An optimizer with which all replicas apply the gradient of the whole batch; on one device, the given one.

    Args:
        optimizer: an optimizer of this library, one of Keras's that does not clip, or one of these with loss
            scaling.
        scales_loss: whether Keras would scale the loss, as for models in mixed float16.

    Raises:
        ValueError: one of Keras's optimizers would clip on each replica, or any would accumulate.
    """
    if kernels.replica_count() == 1:
        return optimizer
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    inner = optimizer.inner_optimizer if scaled else optimizer
    _check_accumulation(inner)
    used = [f"{name}={value}" for name in _PER_REPLICA if (value := getattr(inner, name, None))]
    if used and not isinstance(inner, OfWholeBatch):
        raise ValueError(
            "expected AdamW, Lamb or AdamWarmup of keras_bert_rebuild under distribute('mirrored'), since Keras's optimizers clip "
            f"the gradient of each replica separately; got {type(inner).__name__} with {', '.join(used)}."
        )
    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        return LossScaleOptimizer(inner, optimizer.initial_scale, optimizer.dynamic_growth_steps, name=optimizer.name)
    return LossScaleOptimizer(keras.optimizers.get(inner), name="loss_scale_optimizer") if scales_loss and not scaled else optimizer
