"""Predictions of one model from several threads, one after the other.

Keras's prediction is not made for threads: on JAX it gives the buffers of the model's variables away during a call, and a second
call finds them deleted; on every backend it makes its function in the first call.
"""

import threading
import weakref

import keras

_LOCKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_OF_LOCKS = threading.Lock()


def predicted(model, inputs):
    """What `model.predict_on_batch` puts out, as an array of NumPy or what holds several; other threads wait.

    Args:
        model: a Keras model.
        inputs: of a batch.
    """
    with _OF_LOCKS:
        lock = _LOCKS.setdefault(model, threading.Lock())
    with lock:
        return keras.tree.map_structure(keras.ops.convert_to_numpy, model.predict_on_batch(inputs))
