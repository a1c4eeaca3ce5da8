"""Functions between two matrix products as one kernel in training, where a backend would run them operation by operation."""

import functools

import keras


@functools.cache
def in_one_kernel(function):
    """The same function of tensors, for training.

    On TensorFlow XLA compiles it, also where the graph around it is not compiled, and its inputs alone are kept for the backward
    pass, which computes the rest again. JAX and torch have such kernels of their own: there it is the function itself.

    Not for inference, which is exported to runtimes without XLA.

    Args:
        function: of tensors, with one tensor as result, made of `keras.ops`.
    """
    if keras.config.backend() != "tensorflow":
        return function
    from keras_bert_rebuild.layers.tensorflow_kernels import compiled

    return compiled(function)
