"""JAX: predictions that are returned before they are computed, and asynchronous copies to the accelerator."""

import weakref

import jax
import keras
import numpy as np

from keras_bert_rebuild.kernels.interventions import running_interventions

# Compiled functions per model, by the active interventions when they were compiled; each has a program per shape.
_PROGRAMS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def begin(model, inputs, variables=None):
    """The outputs of a model for a batch, on the device; compiled once per shape, unless the model must not be compiled.

    Args:
        model: a Keras model.
        inputs: arrays.
        variables: `model.variables`, if the caller has them; None looks through all layers for them.
    """
    if not model.jit_compile:
        return model.predict_on_batch(inputs)
    now = running_interventions()
    programs = _PROGRAMS.setdefault(model, {})
    if now not in programs:
        for ended in [key for key in programs if not key <= now]:
            del programs[ended]
        programs[now] = _program(weakref.ref(model))
    values = [variable.value for variable in (model.variables if variables is None else variables)]
    return programs[now](values, keras.tree.map_structure(_argument, inputs))


def _program(model):
    """The compiled function of a model; it only has a weak reference, since the table would keep its key alive forever."""

    @jax.jit
    def answer(values, inputs):
        called = model()
        value_of = dict(zip(map(id, called.variables), values, strict=True))
        kinds = called.trainable_variables, called.non_trainable_variables
        outputs, _ = called.stateless_call(*([value_of[id(each)] for each in kind] for kind in kinds), inputs, training=False)
        return outputs

    return answer


def _argument(array):
    """An argument of a compiled function: it copies NumPy arrays itself, for less time than a call of JAX for each of them."""
    return array if isinstance(array, (np.ndarray, jax.Array)) else jax.numpy.asarray(array)


def put(array):
    """A NumPy array as one on the accelerator, returned while the copy is in progress; anything else unchanged."""
    return jax.device_put(array) if isinstance(array, np.ndarray) else array
