"""A prediction on JAX, whose result is returned before it is computed, and a copy to the accelerator that nobody waits for."""

import weakref

import jax
import keras
import numpy as np

from keras_bert_rebuild.kernels.interventions import running_interventions

# The compiled answer of every model, by the interventions that it was compiled under; a program for every shape.
_PROGRAMS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def begin(model, inputs):
    """The outputs of a model for a batch, on the device; compiled once for every shape, unless the model is not to be compiled.

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
    """The compiled function of a model; it has only a weak reference, since the table would hold its key for ever."""

    @jax.jit
    def answer(trainable, others, inputs):
        outputs, _ = model().stateless_call(trainable, others, inputs, training=False)
        return outputs

    return answer


def put(array):
    """A NumPy array as one on the accelerator; anything else as it is. The copy goes on while this returns."""
    return jax.device_put(array) if isinstance(array, np.ndarray) else array
