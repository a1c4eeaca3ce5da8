"""torch only: whether there is a GPU, and copies to it that the host does not wait for."""

import numpy as np
import torch

# What torch has too; Keras converts the others.
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def torch_has_gpu():
    """Whether Keras computes on a GPU of NVIDIA or AMD."""
    return torch.cuda.is_available()


def torch_put(array):
    """A NumPy array as a tensor on the GPU; anything else, and other types of numbers, as they are.

    From pinned memory the copy is queued behind the steps that were queued before. From other memory, as Keras's own, it would wait
    until they are done, and the host with it.
    """
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
        return array
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor.pin_memory().to("cuda", non_blocking=True)
