"""torch: predictions that stay on the device while it computes them, and asynchronous copies to a GPU."""

import keras
import numpy as np
import torch

from keras_bert_rebuild.kernels import torch_graphs

# Dtypes that torch also has; Keras converts others.
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def begin(model, inputs, variables=None):
    """The outputs of a model for a batch, without gradients; a model compiled by `torch.compile` is called itself.

    Args:
        model: a Keras model.
        inputs: arrays.
        variables: `model.variables`, if the caller has them.
    """
    if model.jit_compile:
        return model.predict_on_batch(inputs)
    graph = torch_graphs.graph_for(model, inputs, variables)
    if graph is None:
        with torch.no_grad():
            return model(inputs, training=False)  # of arrays on the host, whose ids it checks
    arrays = keras.tree.flatten(inputs)
    return graph(map(put, arrays) if graph.device.type == "cuda" else arrays)


def put(array):
    """A NumPy array as a tensor on an NVIDIA or AMD GPU; other arrays, and on other devices all of them, unchanged.

    From pinned memory, the copy is queued after the steps queued before it. From other memory, such as Keras's own copies, it would
    make the host wait until these steps are done.
    """
    if not torch.cuda.is_available() or not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
        return array
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor.pin_memory().to("cuda", non_blocking=True)
