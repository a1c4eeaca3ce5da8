"""Which kernel runs on which backend, under what condition and why: kernels are chosen only here."""

import dataclasses
import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import keras

from keras_bert_rebuild.kernels import conditions
from keras_bert_rebuild.kernels.conditions import WINDOWS


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
    applies: Callable[..., bool] = conditions.always
    """Whether the kernel takes these arguments. The first kernel of the table that does is used."""


# The environment variable whose kernels are left out: read when the first kernel of an operation is chosen.
WITHOUT = "KERAS_BERT_WITHOUT_KERNELS"
STEP = "A pretraining step beside transformers and KerasHub"
WINDOWED = "Attention within a window"
DROPOUT_ON_JAX = "Dropout on JAX"

# The same form on every backend.
IN_BANDS = (
    "compares a query with three windows of keys, not with all: memory grows with length x window",
    WINDOWED,
    f"more than {WINDOWS} times as many tokens as the window has on either side, or a graph of TensorFlow for any number of them",
    conditions.is_long,
)

TABLE = (
    Kernel(
        "attention",
        "jax",
        "jax_flash.attention_with_dropout",
        "no score, probability or random bit is in memory, which the other form writes and reads about six times",
        "tests/kernels/test_jax_flash.py for the values; no GPU figure yet",
        "CUDA, Ampere or later, one device or DataParallel; dropout; padding or sequences; heads of 16 to 128; a trial has passed",
        conditions.drops_in_flash,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_dropout.attention_with_dropout",
        "retains queries, keys and values; the plain form retains three arrays of probabilities, and its bits are dear",
        DROPOUT_ON_JAX,
        "in training with attention dropout",
        conditions.drops_probabilities,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_segments.attend_by_splash",
        "Keras computes and retains all scores under a mask that is an argument of the compiled step",
        "tests/kernels/test_jax_segments.py for the values, tests/tpu for the compiler; no figure of a TPU yet",
        "a TPU, or several under DataParallel; no dropout; padding or sequences; at least 128 tokens",
        conditions.takes_splash,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_kernels.attend_by_pairs",
        "cuDNN takes a mask of all pairs; given one of keys, Keras computes and retains all scores",
        "tests/kernels/test_jax_kernels.py for the values; no GPU figure yet",
        "CUDA with cuDNN, Ampere or later; half precision; no dropout; even lengths; at most twice the hidden size, or pairs given",
        conditions.has_pairs_in_cudnn,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_kernels.attend_by_key_lengths",
        "cuDNN takes the lengths of keys, which are smaller than a mask of all pairs",
        "tests/kernels/test_jax_kernels.py for the values; no GPU figure yet",
        "the same for padding in longer texts",
        conditions.takes_key_lengths,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_segments.attend_by_flash",
        "takes the numbers of sequences, where a mask of all pairs would be larger than queries, keys and values",
        "tests/kernels/test_jax_segments.py for the values; no GPU figure yet",
        "one CUDA device, Ampere or later; no dropout; sequences in rows of a multiple of 128 tokens that cuDNN is not given",
        conditions.takes_sequences,
    ),
    Kernel(
        "attention",
        "tensorflow",
        "tensorflow_kernels.attention_with_dropout",
        "retains queries, keys, values and one byte for every probability; the graph retains four arrays of probabilities",
        STEP,
        "in training with attention dropout",
        conditions.drops_probabilities,
    ),
    *(Kernel("windowed_attention", backend, "bands.attend_in_bands", *IN_BANDS) for backend in ("tensorflow", "jax", "torch")),
    Kernel(
        "dropout",
        "jax",
        "jax_dropout.drop",
        "Threefry takes a hundred operations for a number, a hash of two words a row twenty; it is computed again, not retained",
        DROPOUT_ON_JAX,
        "rates below 1",
        conditions.is_below_one,
    ),
    Kernel(
        "dropout",
        "tensorflow",
        "tensorflow_kernels.drop",
        "half of the time of dropout is random numbers: 16 bits are enough for each, and Keras draws 32",
        STEP,
        "rates below 1",
        conditions.is_below_one,
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
        conditions.is_plain,
    ),
    Kernel(
        "dense",
        "tensorflow",
        "tensorflow_kernels.product_of_rows",
        "TensorFlow adds the bias within the product only if the product is one of rows",
        STEP,
        "no activation, which may depend on the whole shape",
        conditions.is_linear,
    ),
    Kernel(
        "clip_factor",
        "tensorflow",
        "tensorflow_adam.clip_factor",
        "the kernel of the step clips in its own pass over a gradient",
        "A step of AdamW with clipping",
        "outside a strategy with replicas",
        conditions.on_one_device,
    ),
    Kernel(
        "adam_step",
        "tensorflow",
        "tensorflow_adam.apply_adam",
        "changes weight and moments in place, in one pass over memory instead of one for each operation",
        "A step of AdamW with clipping",
        "no averaged weights; moments of the dtype of the weight",
        conditions.changes_in_place,
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
        conditions.among_replicas,
    ),
    Kernel(
        "mean_over_replicas",
        "tensorflow",
        "tensorflow_replicas.mean_of_labels",
        "Keras takes the mean of the means of the replicas, whose parts of a batch have different numbers of labels",
        "tests/training/distributed/test_tensorflow_replicas.py: the losses of one device",
        "in a step of several replicas",
        conditions.among_replicas,
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
    without = switched_off(os.environ.get(WITHOUT, ""))
    found = (kernel for kernel in TABLE if (kernel.backend, kernel.operation) == (backend, operation))
    return tuple(kernel for kernel in found if kernel.function not in without)


def switched_off(names: str) -> frozenset[str]:
    """The kernels that `KERAS_BERT_WITHOUT_KERNELS` names.

    Args:
        names: functions of the table, separated by commas.

    Raises:
        ValueError: a name that no row of the table has.
    """
    found = frozenset(name.strip() for name in names.split(",") if name.strip())
    known = {kernel.function for kernel in TABLE}
    if unknown := found - known:
        names, wrong = (", ".join(sorted(some)) for some in (known, unknown))
        raise ValueError(f"{WITHOUT} must have names of kernels, separated by commas, out of {names}; got {wrong}.")
    return found


@functools.cache  # also so that AutoGraph, which follows calls, does not follow the import
def _module(name):
    return importlib.import_module(f"keras_bert_rebuild.kernels.{name}")
