"""Values and gradients of functions of tensors, on the running backend."""

import keras
from keras import ops

# At float32's rounding of values around one, and at bfloat16's last digit.
TOLERANCES = {"float32": 2e-6, "bfloat16": 2e-2}


def value_and_gradients(function, upstream, *arrays, dtype="float32"):
    """The value of a function of tensors, and the gradients of its sum weighted with `upstream`, on the running backend."""
    backend = keras.config.backend()
    tensors = [ops.convert_to_tensor(array, dtype=dtype) for array in arrays]
    upstream = ops.convert_to_tensor(upstream, dtype="float32")

    def weighted(*tensors):
        return ops.sum(ops.cast(function(*tensors), "float32") * upstream)

    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = weighted(*tensors)
        gradients = tape.gradient(loss, tensors)
    elif backend == "jax":
        import jax

        gradients = jax.grad(weighted, argnums=tuple(range(len(tensors))))(*tensors)
    else:
        tensors = [tensor.detach().requires_grad_(True) for tensor in tensors]
        weighted(*tensors).backward()
        gradients = [tensor.grad for tensor in tensors]
    return [ops.convert_to_numpy(ops.cast(x, "float32")) for x in (function(*tensors), *gradients)]


def rounded(array, dtype):
    """An array rounded to a dtype."""
    return ops.convert_to_numpy(ops.cast(ops.convert_to_tensor(array, dtype=dtype), "float32"))
