"""JAX: predictions that are returned before they are computed, and asynchronous copies to the accelerator."""

import weakref

import jax
import keras
import numpy as np

from keras_bert_rebuild.kernels.interventions import running_interventions

# Compiled functions per model, by the active interventions when they were compiled; each has a program per shape.
_PROGRAMS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def begin(model, inputs):
    """The outputs of a model for a batch, on the device; compiled once per shape, unless the model must not be compiled.

    Args:
        model: a Keras model.
        inputs: arrays.
    """
    if not model.jit_compile:
        return model.predict_on_batch(inputs)
    now = running_interventions()
    programs = _PROGRAMS.setdefault(model, {})
    if now not in programs:
        for ended in [key for key in programs if not key <= now]:
            del programs[ended]
        programs[now] = _program(weakref.ref(model))
    variables = [[variable.value for variable in part] for part in (model.trainable_variables, model.non_trainable_variables)]
    return programs[now](*variables, keras.tree.map_structure(jax.numpy.asarray, inputs))


def _program(model):
    """The compiled function of a model; it only has a weak reference, since the table would keep its key alive forever."""

    @jax.jit
    def answer(trainable, others, inputs):
        outputs, _ = model().stateless_call(trainable, others, inputs, training=False)
        return outputs

    return answer


def put(array):
    """A NumPy array as one on the accelerator, returned while the copy is in progress; anything else unchanged."""
    return jax.device_put(array) if isinstance(array, np.ndarray) else array
