"""Which kernel runs on which backend, under what condition and why."""

import dataclasses
from collections.abc import Callable

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
    """`module.name` in this folder. The module is imported when the kernel first runs."""
    reason: str
    """Why the plain form is not enough."""
    figure: str
    """Where the gain was measured: a heading of benchmarks/RESULTS.md, a page, or a test that shows it."""
    condition: str = "always"
    """The condition in words."""
    applies: Callable[..., bool] = conditions.always
    """Whether the kernel supports the arguments. The first kernel in the table that does is used."""


STEP = "A pretraining step beside transformers and KerasHub"
ATTENTION_ON_GPU = "Attention on a GPU"
STEP_ON_GPU = "Where a step on a GPU spends its time"
WINDOWED = "Attention within a window"
DROPOUT_ON_JAX = "Dropout on JAX"
ON_TORCH = "On torch"
UNFILLED = "zeros would take the memory of a variable until it is filled"

# The same kernel on every backend.
IN_BANDS = (
    "compares a query with the keys of three windows, not with all: memory grows with length x window",
    WINDOWED,
    f"texts longer than {WINDOWS} times the window on one side, or a TensorFlow graph for any length",
    conditions.is_long,
)

TABLE = (
    Kernel(
        "attention",
        "jax",
        "jax_flash.attention_with_dropout",
        "keeps scores, probabilities and random bits out of memory, which the other form writes and reads about six times",
        ATTENTION_ON_GPU,
        "CUDA, Ampere or later, one device or DataParallel; dropout; padding or sequences; heads of 16 to 128; a trial has passed",
        conditions.drops_in_flash,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_dropout.attention_with_dropout",
        "saves queries, keys and values; the plain form saves three arrays of probabilities, and its random bits are expensive",
        DROPOUT_ON_JAX,
        "in training with attention dropout",
        conditions.drops_probabilities,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_segments.attend_by_splash",
        "Keras materialises and saves all scores if the mask is an argument of the compiled step",
        "tests/kernels/test_jax_segments.py for the values, tests/tpu for the compiler; no figure of a TPU yet",
        "a TPU, or several under DataParallel; no dropout; padding or sequences; at least 128 tokens",
        conditions.takes_splash,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_flash.attend_by_sequences",
        "skips the blocks of other sequences, where cuDNN reads a mask of all pairs; even with dropout it is faster than that",
        ATTENTION_ON_GPU,
        "CUDA, Ampere or later, one device or DataParallel; no dropout; sequences; heads of 16 to 128; a trial has passed",
        conditions.takes_sequences,
    ),
    Kernel(
        "attention",
        "jax",
        "jax_kernels.attend_by_pairs",
        "cuDNN takes a mask of all pairs; given a mask of keys, Keras materialises and saves all scores",
        ATTENTION_ON_GPU,
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
        "attention_of_inputs",
        "jax",
        "jax_flash_merged.attend_to_inputs",
        "one product in place of three; without passes over memory for their biases, and for the sum and the copies of gradients",
        STEP_ON_GPU,
        "as for `jax_flash` with and without dropout; no rotary positions and no window; a trial of its own has passed",
        conditions.attends_to_products,
    ),
    Kernel(
        "attention",
        "tensorflow",
        "tensorflow_kernels.attention_with_dropout",
        "saves queries, keys, values and one byte per probability; the graph saves four arrays of probabilities",
        STEP,
        "in training with attention dropout",
        conditions.drops_probabilities,
    ),
    Kernel(
        "attention",
        "torch",
        "torch_kernels.attention_with_dropout",
        "keeps scores and probabilities out of memory; Keras's call of the same kernels does not take dropout",
        "tests/kernels/test_table.py for the values; no GPU figure yet",
        "CUDA; dropout without a seed of the user's",
        conditions.drops_in_torch,
    ),
    *(Kernel("windowed_attention", backend, "bands.attend_in_bands", *IN_BANDS) for backend in ("tensorflow", "jax", "torch")),
    Kernel(
        "dropout",
        "jax",
        "jax_dropout.drop",
        "Threefry takes a hundred operations per number, a hash of two words per row eight; it is recomputed, not saved",
        DROPOUT_ON_JAX,
        "rates below 1",
        conditions.is_below_one,
    ),
    Kernel(
        "dropout",
        "tensorflow",
        "tensorflow_kernels.drop",
        "half of the time of dropout is random numbers: 16 bits each are enough, and Keras draws 32",
        STEP,
        "rates below 1",
        conditions.is_below_one,
    ),
    Kernel(
        "in_one_kernel",
        "tensorflow",
        "tensorflow_kernels.compiled",
        "XLA computes in one pass over memory what the graph computes operation by operation",
        STEP,
    ),
    Kernel(
        "in_one_kernel",
        "jax",
        "jax_dense.recomputed",
        "XLA saves the tanh of gelu, another pass over the widest array of a block, and computes in half precision",
        STEP_ON_GPU,
        "CUDA",
        conditions.runs_on_cuda,
    ),
    Kernel(
        "gelu",
        "torch",
        "torch_kernels.gelu",
        "one pass over memory in place of five or eight, and in training one saved array in place of several",
        ON_TORCH,
    ),
    Kernel(
        "layer_normalization",
        "tensorflow",
        "tensorflow_kernels.normalize",
        "XLA computes in one pass over memory what the graph computes operation by operation",
        STEP,
    ),
    Kernel(
        "layer_normalization",
        "jax",
        "jax_norm.normalize",
        "XLA reads the inputs three times forward, and once for each of three gradients",
        STEP_ON_GPU,
        "CUDA, Ampere or later, one device or DataParallel; the last axis, its width a multiple of 64; a trial has passed",
        conditions.normalizes_in_one_pass,
    ),
    Kernel(
        "activated_dense",
        "tensorflow",
        "tensorflow_kernels.activated_product",
        "saves the input of the activation for the backward pass, but not its output",
        STEP,
        "a dense layer that is a plain product: not quantised, without adapters, without an activation",
        conditions.is_plain,
    ),
    Kernel(
        "dense",
        "tensorflow",
        "tensorflow_kernels.product_of_rows",
        "TensorFlow fuses the bias with a product of two-dimensional arrays only, and sums its gradient in half precision",
        STEP,
        "not quantised; no activation, which may depend on the whole shape",
        conditions.is_product,
    ),
    Kernel(
        "dense",
        "jax",
        "jax_dense.product_with_bias",
        "XLA sums the gradient of a bias over all tokens in half precision",
        "tests/kernels/test_operations.py for the sums; at no cost on a GPU",
        "half precision; not quantised; no activation",
        conditions.is_half_product,
    ),
    Kernel(
        "dense",
        "torch",
        "torch_kernels.product_with_bias",
        "torch adds the bias within the product, which saves a pass over the output, and Keras's call of a layer takes 0.2 ms",
        ON_TORCH,
        "not quantised; no activation",
        conditions.is_product,
    ),
    Kernel(
        "add_bias",
        "jax",
        "jax_dense.add_bias",
        "XLA sums the gradient of a bias over all tokens in half precision",
        "tests/kernels/test_operations.py for the sums",
        "half precision",
        conditions.is_half,
    ),
    Kernel(
        "clip_factor",
        "tensorflow",
        "tensorflow_adam.clip_factor",
        "the step's kernel clips in its own pass over a gradient",
        "A step of AdamW with clipping",
        "outside a strategy with replicas",
        conditions.on_one_device,
    ),
    Kernel(
        "adam_step",
        "tensorflow",
        "tensorflow_adam.apply_adam",
        "updates weight and moments in place, in one pass over memory instead of one per operation",
        "A step of AdamW with clipping",
        "no averaged weights; moments of the dtype of the weight",
        conditions.changes_in_place,
    ),
    Kernel(
        "clip_factor",
        "torch",
        "torch_adam.clip_factor",
        "a norm reads a gradient once, and multiplies it by one number; the plain form writes its squares to memory",
        ON_TORCH,
    ),
    Kernel(
        "adam_steps",
        "torch",
        "torch_adam.apply_adam",
        "one pass over weights and moments, and on a GPU a few kernels, in place of twenty operations for each variable",
        ON_TORCH,
        "no averaged weights; moments of the dtype of the weight; a CPU or CUDA",
        conditions.all_change_in_place,
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
        "Keras takes the mean of the replicas' means, although their numbers of labels differ",
        "tests/training/distributed/test_tensorflow_replicas.py: the losses of one device",
        "in a step of several replicas",
        conditions.among_replicas,
    ),
    Kernel("unwritten", "tensorflow", "tensorflow_kernels.unwritten", UNFILLED, "Loading"),
    Kernel("unwritten", "jax", "jax_kernels.unwritten", UNFILLED, "Loading"),
    Kernel("handed_over", "jax", "jax_kernels.handed_over", "JAX copies in threads that do not release their memory", "Loading"),
    Kernel(
        "bounded_scan",
        "tensorflow",
        "tensorflow_kernels.bounded_scan",
        "Keras's scan does not pass the maximum length of the loop to TensorFlow, without which XLA cannot differentiate it",
        "none: without it the loss of a conditional random field does not compile",
    ),
)
