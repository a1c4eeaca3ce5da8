"""keras_bert's import path of Keras: `from keras_bert.backend import keras, backend as K`."""

import types
from typing import Any

import keras
from keras import ops

activations = keras.activations
applications = keras.applications
callbacks = keras.callbacks
constraints = keras.constraints
datasets = keras.datasets
initializers = keras.initializers
layers = keras.layers
losses = keras.losses
metrics = keras.metrics
models = keras.models
optimizers = keras.optimizers
preprocessing = keras.preprocessing
regularizers = keras.regularizers
utils = keras.utils
wrappers = keras.wrappers

# The names in Keras 2's `keras.engine` that programs use; Keras 3 has no such module.
engine = types.SimpleNamespace(InputSpec=keras.InputSpec, Layer=keras.layers.Layer, Model=keras.Model)

# As in keras_bert without its environment variables: `keras`, not `tf.keras`.
TF_KERAS = False
EAGER_MODE = False

# Functions of Keras 2's backend with the same arguments in `keras.ops`.
SAME = (
    "abs", "all", "any", "arange", "binary_crossentropy", "cast", "categorical_crossentropy", "clip", "cos", "dot", "elu",
    "equal", "exp", "eye", "greater", "greater_equal", "is_tensor", "less", "less_equal", "log", "logsumexp", "max", "maximum",
    "mean", "min", "minimum", "ndim", "not_equal", "one_hot", "ones", "ones_like", "prod", "reshape", "round", "shape", "sigmoid",
    "sign", "sin", "softmax", "softplus", "softsign", "sparse_categorical_crossentropy", "sqrt", "square", "squeeze", "std",
    "stop_gradient", "sum", "tanh", "tile", "transpose", "var", "zeros", "zeros_like",
)  # fmt: skip

# Functions with another name or other defaults in `keras.ops`.
OTHER: dict[str, Any] = {
    "argmax": lambda x, axis=-1: ops.argmax(x, axis),
    "argmin": lambda x, axis=-1: ops.argmin(x, axis),
    "concatenate": lambda tensors, axis=-1: ops.concatenate(tensors, axis),
    "constant": lambda value, dtype=None: ops.convert_to_tensor(value, dtype or keras.config.floatx()),
    "cumprod": lambda x, axis=0: ops.cumprod(x, axis),
    "cumsum": lambda x, axis=0: ops.cumsum(x, axis),
    "dtype": lambda x: keras.backend.standardize_dtype(x.dtype),
    "expand_dims": lambda x, axis=-1: ops.expand_dims(x, axis),
    "flatten": lambda x: ops.reshape(x, (-1,)),
    "gather": lambda reference, indices: ops.take(reference, indices, axis=0),
    "get_value": lambda variable: ops.convert_to_numpy(variable),
    "int_shape": lambda x: tuple(x.shape),
    "l2_normalize": lambda x, axis=None: x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis, keepdims=True), 1e-12)),
    "permute_dimensions": lambda x, pattern: ops.transpose(x, pattern),
    "pow": lambda x, a: ops.power(x, a),
    "relu": lambda x, alpha=0.0, max_value=None, threshold=0.0: keras.activations.relu(x, alpha, max_value, threshold),
    "repeat_elements": lambda x, rep, axis: ops.repeat(x, rep, axis),
    "set_value": lambda variable, value: variable.assign(value),
    "stack": lambda x, axis=0: ops.stack(x, axis),
    "update": lambda variable, value: variable.assign(value),
    "update_add": lambda variable, value: variable.assign_add(value),
    "update_sub": lambda variable, value: variable.assign_sub(value),
    "variable": lambda value, dtype=None, name=None: keras.Variable(value, dtype=dtype, name=name),
}

# Replacements for functions that need a TensorFlow 1 graph, or that have no equivalent.
GONE = {
    "batch_dot": "keras.ops.einsum or keras.ops.matmul",
    "eval": "keras.ops.convert_to_numpy(x)",
    "function": "keras.Model(inputs, outputs), to be called or used with predict",
    "get_session": "nothing: there are no sessions",
    "gradients": "keras_bert_rebuild.explain, or the gradients of the backend (tf.GradientTape, jax.grad, torch.autograd.grad)",
    "in_train_phase": "the argument training of call",
    "in_test_phase": "the argument training of call",
    "hard_sigmoid": "keras.activations.hard_sigmoid, which has another slope",
    "learning_phase": "the argument training of call",
    "placeholder": "keras.Input",
    "random_normal": "keras.random.normal",
    "random_uniform": "keras.random.uniform",
    "reverse": "keras.ops.flip(x, axis)",
    "rnn": "keras.layers.RNN",
    "set_learning_phase": "the argument training of call",
    "set_session": "nothing: there are no sessions",
    "switch": "keras.ops.where or keras.ops.cond",
    "temporal_padding": "keras.ops.pad",
    "tf": "import tensorflow",
    "truncated_normal": "keras.random.truncated_normal",
}


class Keras2Backend:
    """`keras.backend` of Keras 3, plus the functions of Keras 2's backend that users of keras_bert call, from `keras.ops`.

    They run on every backend. A function that no longer exists raises an `AttributeError` that names its replacement.

    Example:

    >>> from keras_bert_rebuild.backend import backend as K
    >>> x = K.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> K.int_shape(x), K.get_value(K.mean(x, axis=1)).tolist()
    ((2, 2), [1.5, 3.5])
    """

    def __getattr__(self, name: str) -> Any:
        if name in SAME:
            return getattr(ops, name)
        if name in OTHER:
            return OTHER[name]
        if hasattr(keras.backend, name):
            return getattr(keras.backend, name)
        if name in GONE:
            raise AttributeError(f"Keras 3 has no K.{name}; its replacement is {GONE[name]}.")
        raise AttributeError(f"Keras 3 has no K.{name}; functions of tensors are in keras.ops.")

    def __dir__(self) -> list[str]:
        return sorted({*SAME, *OTHER, *dir(keras.backend)})


backend = Keras2Backend()

__all__ = [
    "EAGER_MODE",
    "TF_KERAS",
    "activations",
    "applications",
    "backend",
    "callbacks",
    "constraints",
    "datasets",
    "engine",
    "initializers",
    "keras",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "preprocessing",
    "regularizers",
    "utils",
    "wrappers",
]
