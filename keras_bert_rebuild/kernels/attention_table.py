"""The kernels of attention: rows of `table.py`."""

from keras_bert_rebuild.kernels import conditions
from keras_bert_rebuild.kernels.conditions import WINDOWS
from keras_bert_rebuild.kernels.kernel import Kernel

ATTENTION_ON_GPU = "Attention on a GPU"
STEP_ON_GPU = "Where a step on a GPU spends its time"
WINDOWED = "Attention within a window"
DROPOUT_ON_JAX = "Dropout on JAX"
ON_PROCESSORS = "Activations and dropout on processors"

# The same reason for each.
IN_BFLOAT16 = ("XLA multiplies as in float32, at half the speed, unless the result is float32", "Products of bfloat16 on JAX")
# The same kernel on every backend.
IN_BANDS = (
    "compares a query with the keys of three windows, not with all: memory grows with length x window",
    WINDOWED,
    f"texts longer than {WINDOWS} times the window on one side, or a TensorFlow graph for any length",
    conditions.is_long,
)

ATTENTION = (
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
    Kernel("attention", "jax", "jax_dropout.attend", *IN_BFLOAT16, "bfloat16, CPU; no dropout", conditions.attends_on_processor),
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
        "tensorflow_dropout.attention_with_dropout",
        "saves queries, keys, values and outputs; the graph saves four arrays of probabilities",
        ON_PROCESSORS,
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
)
