"""A prediction on torch, whose result stays on the device that still computes it, and a copy to a GPU that nobody waits for."""

import numpy as np
import torch

# What torch has too; Keras converts the others.
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def begin(model, inputs):
    """The outputs of a model for a batch, without gradients; a model that is compiled by `torch.compile` answers itself.

    Args:
        model: a Keras model.
        inputs: arrays.
    """
    if model.jit_compile:
        return model.predict_on_batch(inputs)
    with torch.no_grad():
        return model(inputs, training=False)


def put(array):
    """A NumPy array as a tensor on the GPU; anything else, and other types of numbers, as they are.

    From pinned memory the copy is queued behind the steps that were queued before. From other memory, as Keras's own, it would wait
    until they are done, and the host with it.
    """
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
        return array
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor.pin_memory().to("cuda", non_blocking=True)
