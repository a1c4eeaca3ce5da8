"""The state of a training, under names that are the same in every process and on every backend.

    weights/<path of the variable>                      Encoder-1-FeedForward/intermediate/kernel
    optimizer/<path of the weight>/<kind of state>      .../kernel/momentum, /velocity, /average_offset, /gradient_accumulator
    optimizer/<name>                                    optimizer/iteration, optimizer/learning_rate
    seeds/<names of the layers>/<attribute>             seeds/Encoder-1-MultiHeadSelfAttention/dropout/seed_generator

Keras's own paths are unsuitable for the last three: those of an optimizer begin with a name that depends on how many were created,
and those of a seed, such as `seed_generator_7/seed_generator_state`, do not name the owner.
"""

import re

import keras
import numpy as np

from keras_bert_rebuild.files.limits import all_finite
from keras_bert_rebuild.kernels import handed_over
from keras_bert_rebuild.training.distributed.hosts import host_count, whole_array
from keras_bert_rebuild.training.state.seeds import seed_generators

# Seeds and counters are int64, int32 or uint32, by backend and version; files have this type.
WHOLE_NUMBER = "int64"

# Keras's name of a variable without a name: "variable", "variable_1", ...
_NUMBERED = re.compile(r"(variable)(_\d+)?")


class TrainState:
    """The state of a compiled model as a source of arrays, each read from its variable on request.

    Args:
        model: a compiled model. Its optimizer is built if it was not.

    Raises:
        ValueError: the model is not compiled.
    """

    def __init__(self, model):
        self.variables = state_variables(model)

    @property
    def names(self):
        """The names of all entries, in the order of the model."""
        return list(self.variables)

    def shape(self, name):
        """The shape of an entry."""
        return tuple(self.variables[name].shape)

    def dtype(self, name):
        """The dtype of an entry in a file, a NumPy name."""
        return _stored_dtype(self.variables[name])

    def read(self, name):
        """An entry, copied to the host."""
        variable = self.variables[name]
        array = self._array(name)
        if name.startswith("seeds/") and array.dtype == "int32":
            array = array.view("uint32")  # torch has no uint32 and stores its bits as int32
        return array.astype(_stored_dtype(variable), copy=False)

    def _array(self, name):
        """The value of a variable on the host."""
        return whole_array(self.variables[name].value)


class FiniteState(TrainState):
    """The state of a model, checked to be finite: a gradient may produce non-finite weights although the loss was finite.

    Args:
        model: a compiled model. Its optimizer is built if it was not.

    Raises:
        ValueError: the model is not compiled.
    """

    def read(self, name):
        """An entry, copied to the host.

        Raises:
            FloatingPointError: it has a number that is not finite.
        """
        array = super().read(name)
        if not all_finite(array):
            raise FloatingPointError(f"{name} contains NaN or infinity")
        return array


class CopiedState(FiniteState):
    """A copy of the state of a model, checked to be finite, which a thread can read while training continues.

    The copies are on the devices of the variables and need memory for the whole state once more: 12 bytes per parameter with AdamW,
    4 more with averages or accumulated gradients, sharded as the variables are. Each is released once it is read. On several hosts
    the copies are whole arrays in the memory of each host, since all hosts must gather them together.

    Args:
        model: a compiled model. Its optimizer is built if it was not.

    Raises:
        FloatingPointError: on several hosts, an entry contains NaN or infinity; on one host, `read` raises this.
        ValueError: the model is not compiled.
    """

    def __init__(self, model):
        super().__init__(model)
        self._on_host = host_count() > 1
        if self._on_host:  # checked here, where all hosts find the same values: none waits for another that has stopped
            self._copies = {name: np.array(super(CopiedState, self).read(name)) for name in self.names}
        else:
            self._copies = {name: keras.ops.copy(variable.value) for name, variable in self.variables.items()}

    def read(self, name):
        """A copied entry, moved to the host; each can be read once.

        Raises:
            FloatingPointError: it has a number that is not finite.
        """
        if self._on_host:
            return self._copies.pop(name)
        try:
            return super().read(name)
        finally:
            del self._copies[name]

    def _array(self, name):
        return super()._array(name) if self._on_host else whole_array(self._copies[name])


def state_variables(model):
    """The variables of weights, optimizer and seeds by their names.

    Keras names an optimizer variable of a weight `<path of the weight, / as _>_<kind of state>`, which is split again here. If two
    have the same name, the suffix `#2` is added to the second, and so on, in the order of the model.

    Args:
        model: a compiled model. Its optimizer is built if it was not.

    Returns:
        A dictionary from name to `keras.Variable`, in the order of the model.

    Raises:
        ValueError: the model is not compiled.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise ValueError(f"expected a compiled model; {model.name} is not compiled.")
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    weights = [variable.path for variable in model.trainable_variables]
    named = [(f"weights/{variable.path}", variable) for variable in model.weights]
    named += [(f"optimizer/{_slot_name(variable.name, weights)}", variable) for variable in optimizer.variables]
    named += [(f"seeds/{name}", generator.state) for name, generator in seed_generators(model)]
    state = {}
    for name, variable in named:
        unique, count = name, 1
        while unique in state:
            count += 1
            unique = f"{name}#{count}"
        state[unique] = variable
    return state


def read_state(model):
    """A copy of the state of a training.

    Args:
        model: a compiled model.

    Returns:
        A dictionary from name to array: weights, optimizer variables, seeds of dropout. Integers are int64.
    """
    state = TrainState(model)
    return {name: state.read(name) for name in state.names}


def write_state(model, arrays):
    """Restore the state of a compiled model from that of an equal one, from any process and backend.

    Args:
        model: a compiled model.
        arrays: a dictionary from `read_state`, or a source with `names`, `shape(name)`, `dtype(name)` and `read(name)`, such as
            `Checkpoint.arrays()`, which is read one array at a time.

    Raises:
        ValueError: arrays are missing, unknown, or of another shape or dtype; the error lists all, and the model is unchanged.
    """
    source = ArraySource(arrays) if isinstance(arrays, dict) else arrays
    variables, names = state_variables(model), set(source.names)
    problems = [f"{name}: missing" for name in variables if name not in names]
    problems += [f"{name}: unknown to the model" for name in sorted(names) if name not in variables]
    problems += [f"{name}: {why}" for name, v in variables.items() if name in names and (why := _misfit(name, v, source))]
    if problems:
        raise ValueError("the state does not match the model:\n  " + "\n  ".join(problems))
    for name, variable in variables.items():
        array = source.read(name)
        if np.issubdtype(array.dtype, np.integer):
            array = array.astype(keras.backend.standardize_dtype(variable.dtype))  # a seed on torch retains its 32 bits
        elif array.dtype.name == "bfloat16":  # not every backend accepts it from NumPy
            array = array.astype("float32")
        variable.assign(handed_over(array))


class ArraySource:
    """A dictionary of arrays with the interface of a file.

    Args:
        arrays: from name to array.
    """

    def __init__(self, arrays):
        self._arrays = {name: np.asarray(array) for name, array in arrays.items()}

    @property
    def names(self):
        """The names of all arrays, in order."""
        return list(self._arrays)

    def shape(self, name):
        """The shape of an array."""
        return self._arrays[name].shape

    def dtype(self, name):
        """The dtype of an array, a NumPy name."""
        return self._arrays[name].dtype.name

    def read(self, name):
        """A copy of an array, because a backend may retain its argument."""
        return self._arrays[name].copy()


def _slot_name(name, weights):
    """The path of the weight and the kind of state, from Keras's name of an optimizer variable; other names are unchanged."""
    paths = [path for path in weights if name.startswith(path.replace("/", "_") + "_")]
    if not paths:
        numbered = _NUMBERED.fullmatch(name)
        return numbered[1] if numbered else name
    path = max(paths, key=len)
    return f"{path}/{name[len(path) + 1 :]}"


def _stored_dtype(variable):
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return WHOLE_NUMBER if "int" in dtype else dtype


def _misfit(name, variable, source):
    """Why an array does not match a variable; None if it does."""
    ours, theirs = tuple(variable.shape), tuple(source.shape(name))
    if ours != theirs:
        return f"expected shape {ours}; got {theirs}"
    expected, got = _stored_dtype(variable), source.dtype(name)
    if expected != got:
        return f"expected {expected}; got {got}"
    if expected == WHOLE_NUMBER:
        array, (low, high) = source.read(name), _limits(name, variable)
        if array.size and (array.min() < low or array.max() > high):
            return f"expected numbers from {low} to {high}; got {array.min()} to {array.max()}"
    return None


def _limits(name, variable):
    """The minimum and maximum of the dtype of a variable."""
    dtype = keras.backend.standardize_dtype(variable.dtype)
    limits = np.iinfo("uint32" if name.startswith("seeds/") and dtype == "int32" else dtype)
    return limits.min, limits.max
