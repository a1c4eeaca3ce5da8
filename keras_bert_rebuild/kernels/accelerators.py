"""Whether there is an accelerator, and batches that are put into its memory before their step."""

from collections.abc import Callable
from typing import Any

import keras


def has_accelerator() -> bool:
    """Whether the backend computes on a GPU or TPU."""
    backend = keras.config.backend()
    if backend == "jax":
        from keras_bert_rebuild.kernels.jax_kernels import jax_has_accelerator as found
    elif backend == "torch":
        from keras_bert_rebuild.kernels.torch_kernels import torch_has_gpu as found
    else:
        from keras_bert_rebuild.kernels.tensorflow_replicas import gpu_count as found
    return bool(found())


def put_ahead() -> Callable[[Any], Any] | None:
    """The function that begins to copy an array to the accelerator and returns what a step takes; it may run in any thread.

    Returns:
        None where it would not pay or where Keras does it: on a processor, whose memory it is in; on TensorFlow, whose steps take
        a batch from a pipeline; with a `keras.distribution`, by which Keras divides a batch. Ask in the thread that trains: Keras's
        distribution is a thread's.
    """
    if keras.config.backend() == "tensorflow" or not has_accelerator() or keras.distribution.distribution() is not None:
        return None
    if keras.config.backend() == "jax":
        from keras_bert_rebuild.kernels.jax_kernels import jax_put as put
    else:
        from keras_bert_rebuild.kernels.torch_kernels import torch_put as put
    return put
