"""JAX: predictions that are returned before they are computed, programs compiled ahead, and asynchronous copies to a device."""

import weakref
from concurrent.futures import ThreadPoolExecutor, wait

import jax
import keras
import numpy as np

from keras_bert_rebuild.kernels.interventions import running_interventions

# Compiled functions per model, by the active interventions when they were compiled; each has a program per shape.
_PROGRAMS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

# Programs that threads compile or have compiled, per function, by the shapes of a batch.
_AHEAD: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def begin(model, inputs, variables=None):
    """The outputs of a model for a batch, on the device; compiled once per shape, unless the model must not be compiled.

    Args:
        model: a Keras model.
        inputs: arrays.
        variables: `model.variables`, if the caller has them; None looks through all layers for them.
    """
    if not model.jit_compile:
        return model.predict_on_batch(inputs)
    program = _program(model)
    if (ahead := _AHEAD.get(program)) and (compiling := ahead.get(_shapes(inputs))) is not None:
        wait([compiling])  # if it failed, the call below says why
    values = [variable.value for variable in (model.variables if variables is None else variables)]
    return program(values, keras.tree.map_structure(_argument, inputs))


def compile_ahead(model, batches):
    """Compile the program of each batch in a thread; `begin` waits for the one that it needs.

    Only the compiler runs there: this thread traces the model, whose layers another one could be calling.

    Args:
        model: a Keras model.
        batches: inputs of different shapes.
    """
    if not model.jit_compile:
        return
    program = _program(model)
    ahead = _AHEAD.setdefault(program, {})
    new = {shapes: inputs for inputs in batches if (shapes := _shapes(inputs)) not in ahead}
    if not new:
        return
    values = [jax.ShapeDtypeStruct(variable.shape, variable.dtype) for variable in model.variables]
    threads = ThreadPoolExecutor(len(new), "compile-ahead")
    for shapes, inputs in new.items():
        arguments = keras.tree.map_structure(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), inputs)
        ahead[shapes] = threads.submit(_compile, program.lower(values, arguments))
    threads.shutdown(wait=False)


def _compile(lowered):
    lowered.compile()


def _shapes(inputs):
    return tuple((array.shape, str(array.dtype)) for array in keras.tree.flatten(inputs))


def _program(model):
    """The compiled function of a model under the active interventions."""
    now = running_interventions()
    programs = _PROGRAMS.setdefault(model, {})
    if now not in programs:
        for ended in [key for key in programs if not key <= now]:
            del programs[ended]
        programs[now] = _answer(weakref.ref(model))
    return programs[now]


def _answer(model):
    """A function compiled for every shape; it only has a weak reference, since the table would keep its key alive forever."""

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
