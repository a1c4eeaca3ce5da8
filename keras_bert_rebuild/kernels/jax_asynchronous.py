"""JAX: predictions that are returned before they are computed, programs compiled ahead, and asynchronous copies to a device."""

import os
import weakref
from concurrent.futures import ThreadPoolExecutor, wait

import jax
import keras
import numpy as np

from keras_bert_rebuild.layers.seam import execution

# Compiled functions per model, by the execution under which they were compiled; each has a program per shape.
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
    program = _program(model)
    ahead = _AHEAD.setdefault(program, {})
    new = {shapes: inputs for inputs in batches if (shapes := _shapes(inputs)) not in ahead}
    if not new:
        return
    values = [jax.ShapeDtypeStruct(variable.shape, variable.dtype) for variable in model.variables]
    calls = [(values, keras.tree.map_structure(_argument, inputs)) for inputs in new.values()]
    ahead.update(zip(new, _compile_in_threads(program, calls), strict=True))


def train_after_compiling(model, batches):
    """Compile the training step for each batch in a thread, and return a `train_function` that first waits for all of them.

    Args:
        model: a Keras model with a `train_function`.
        batches: batches of different shapes.
    """
    # Keras makes such a function of the same method, whose calls find the programs of this one as long as it exists.
    step = jax.jit(model.train_step, donate_argnums=0, out_shardings=None)
    kinds = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables, model.metrics_variables
    state = tuple([variable.value for variable in kind] for kind in kinds)
    compiling = _compile_in_threads(step, [(state, batch) for batch in batches])
    train = model.train_function

    def train_compiled(state, iterator, step=step):
        wait(compiling)  # if one failed, the call below says why
        return train(state, iterator)

    return train_compiled


def _compile_in_threads(program, calls):
    """Futures of programs for these arguments, compiled in threads, no more at once than cores, and traced in this one."""
    threads = ThreadPoolExecutor(min(len(calls), os.cpu_count() or 1), "compile-ahead")
    # Each begins before the next one is traced.
    compiling = [threads.submit(_compile, program.lower(*arguments)) for arguments in calls]
    threads.shutdown(wait=False)
    return compiling


def _compile(lowered):
    lowered.compile()


def _shapes(inputs):
    return tuple((array.shape, str(array.dtype)) for array in keras.tree.flatten(inputs))


def _program(model):
    """The compiled function of a model under the current execution."""
    now = execution()
    programs = _PROGRAMS.setdefault(model, {})
    if now not in programs:
        for ended in [key for key in programs if not now.follows(key)]:
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
