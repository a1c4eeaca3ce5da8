"""Which kernel runs on which backend, under what condition and why: kernels are chosen only here."""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import keras

from keras_bert_rebuild.kernels.sequences import has_sequences


def _always(*arguments):
    return True


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function of one backend that replaces the plain form of an operation, which is written in `keras.ops`."""

    operation: str
    """What it computes: the name of the function that layers, optimizers and loaders call (see `operations.py`)."""
    backend: str
    """Its name in Keras."""
    function: str
    """`module.name`, in this folder. The module is imported when the kernel first runs."""
    reason: str
    """Why the plain form is not enough."""
    figure: str
    """Where the gain was measured: a heading of benchmarks/RESULTS.md or a page, or a test that shows it."""
    condition: str = "always"
    """`applies` in words."""
    applies: Callable[..., bool] = _always
    """Whether the kernel takes these arguments. The first kernel of the table that does is used."""


def _takes_key_lengths(query, mask, causal, dropout):
    from keras_bert_rebuild.kernels.jax_kernels import has_fused_kernel

    return dropout == 0 and not causal and len(mask.shape) == 2 and not has_sequences(mask) and has_fused_kernel(query)


def _drops_probabilities(query, mask, causal, dropout):
    return dropout > 0


# Lengths that are this many windows or fewer are compared as a whole.
WINDOWS = 8


def _is_long(query, window):
    length = query.shape[1]
    return length is None or length > WINDOWS * window


def _is_below_one(rate):
    return rate < 1


def _is_linear(dense):
    return dense.activation is keras.activations.linear


def _is_plain(dense):
    """Whether a `Dense` is only a product with its kernel plus its bias: not quantised and without adapters."""
    return dense.dtype_policy.quantization_mode is None and not dense.lora_enabled and _is_linear(dense)


def _changes_in_place(weight_dtype, moment_dtype, averages):
    return not averages and weight_dtype == moment_dtype


def _on_one_device():
    from keras_bert_rebuild.kernels.tensorflow_adam import is_one_device

    return is_one_device()


def _among_replicas():
    from keras_bert_rebuild.kernels.tensorflow_replicas import are_several

    return are_several()


STEP = "A pretraining step beside transformers and KerasHub"
WINDOWED = "Attention within a window"

# The same form on every backend.
IN_BANDS = (
    "compares a query with three windows of keys, not with all: memory grows with length x window",
    WINDOWED,
    f"more than {WINDOWS} times as many tokens as the window has on either side, or a graph of TensorFlow for any number of them",
    _is_long,
)

TABLE = (
    Kernel(
        "attention",
        "jax",
        "jax_kernels.attend_by_key_lengths",
        "cuDNN takes the lengths of keys; given a mask, Keras computes and retains all scores",
        "tests/kernels/test_jax_kernels.py for the values; no GPU figure yet",
        "CUDA with cuDNN, Ampere or later; half precision; no dropout; a mask of keys; heads of a width that cuDNN takes",
        _takes_key_lengths,
    ),
    Kernel(
        "attention",
        "tensorflow",
        "tensorflow_kernels.attention_with_dropout",
        "retains queries, keys, values and one byte for every probability; the graph retains four arrays of probabilities",
        STEP,
        "in training with attention dropout",
        _drops_probabilities,
    ),
    *(Kernel("windowed_attention", backend, "bands.attend_in_bands", *IN_BANDS) for backend in ("tensorflow", "jax", "torch")),
    Kernel(
        "dropout",
        "tensorflow",
        "tensorflow_kernels.drop",
        "half of the time of dropout is random numbers: 16 bits are enough for each, and Keras draws 32",
        STEP,
        "rates below 1",
        _is_below_one,
    ),
    Kernel(
        "in_one_kernel",
        "tensorflow",
        "tensorflow_kernels.compiled",
        "XLA runs in one pass over memory a function that the graph runs operation by operation",
        STEP,
    ),
    Kernel(
        "activated_dense",
        "tensorflow",
        "tensorflow_kernels.activated_product",
        "retains the input of the activation for the backward pass, but not its output",
        STEP,
        "a dense layer that is a plain product: not quantised, without adapters, without an activation",
        _is_plain,
    ),
    Kernel(
        "dense",
        "tensorflow",
        "tensorflow_kernels.product_of_rows",
        "TensorFlow adds the bias within the product only if the product is one of rows",
        STEP,
        "no activation, which may depend on the whole shape",
        _is_linear,
    ),
    Kernel(
        "clip_factor",
        "tensorflow",
        "tensorflow_adam.clip_factor",
        "the kernel of the step clips in its own pass over a gradient",
        "A step of AdamW with clipping",
        "outside a strategy with replicas",
        _on_one_device,
    ),
    Kernel(
        "adam_step",
        "tensorflow",
        "tensorflow_adam.apply_adam",
        "changes weight and moments in place, in one pass over memory instead of one for each operation",
        "A step of AdamW with clipping",
        "no averaged weights; moments of the dtype of the weight",
        _changes_in_place,
    ),
    Kernel(
        "replica_count",
        "tensorflow",
        "tensorflow_replicas.replica_count",
        "only a TensorFlow strategy has replicas; JAX computes a batch over devices as one array",
        "none: it returns a number",
    ),
    Kernel(
        "sum_over_replicas",
        "tensorflow",
        "tensorflow_replicas.sum_gradients",
        "Keras clips the gradient of each replica and then sums, which is not the clipped gradient of the batch",
        "tests/training/distributed/test_tensorflow_replicas.py: the losses of one device",
        "in a step of several replicas",
        _among_replicas,
    ),
    Kernel(
        "mean_over_replicas",
        "tensorflow",
        "tensorflow_replicas.mean_of_labels",
        "Keras takes the mean of the means of the replicas, whose parts of a batch have different numbers of labels",
        "tests/training/distributed/test_tensorflow_replicas.py: the losses of one device",
        "in a step of several replicas",
        _among_replicas,
    ),
    Kernel(
        "unwritten",
        "tensorflow",
        "tensorflow_kernels.unwritten",
        "zeros would take the memory of a variable before it is filled",
        "Loading",
    ),
    Kernel("unwritten", "jax", "jax_kernels.unwritten", "zeros would take the memory of a variable before it is filled", "Loading"),
    Kernel("handed_over", "jax", "jax_kernels.handed_over", "JAX copies in threads that do not release their memory", "Loading"),
    Kernel(
        "bounded_scan",
        "tensorflow",
        "tensorflow_kernels.bounded_scan",
        "Keras's scan does not tell TensorFlow the maximum length of the loop, without which XLA cannot differentiate it",
        "none: without it the loss of a conditional random field does not compile",
    ),
)


def choose(operation: str, *arguments: Any) -> Callable[..., Any] | None:
    """The kernel of the running backend for an operation, or None if its plain form must run.

    Args:
        operation: a name of the table.
        *arguments: those of the conditions of its kernels.
    """
    for kernel in _of_backend(keras.config.backend(), operation):
        if kernel.applies(*arguments):
            module, _, name = kernel.function.rpartition(".")
            return getattr(_module(module), name)
    return None


@functools.cache
def _of_backend(backend, operation):
    return tuple(kernel for kernel in TABLE if (kernel.backend, kernel.operation) == (backend, operation))


@functools.cache  # also so that AutoGraph, which follows calls, does not follow the import
def _module(name):
    return importlib.import_module(f"keras_bert_rebuild.kernels.{name}")
