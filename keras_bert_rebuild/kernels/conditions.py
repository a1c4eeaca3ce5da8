"""When the kernels of `table.py` apply: conditions take the arguments that `choose` gets for their operation."""

import keras

from keras_bert_rebuild.kernels.real_tokens import is_padding_unread
from keras_bert_rebuild.kernels.sequences import has_sequences
from keras_bert_rebuild.kernels.traits import is_half


def always(*arguments):
    """No condition."""
    return True


def has_pairs_in_cudnn(query, mask, causal, dropout, seeds=None):
    """A mask of pairs is read three times, 2 bytes each; moving keys and values and back is eight passes over 2-byte numbers."""
    from keras_bert_rebuild.kernels.jax_kernels import has_fused_kernel

    length, of_keys = query.shape[1], mask.shape[-1]
    short = len(mask.shape) == 4 or length <= 2 * query.shape[2] * query.shape[3]
    return not dropout and not causal and short and length % 2 == 0 and of_keys % 2 == 0 and has_fused_kernel(query)


def takes_key_lengths(query, mask, causal, dropout, seeds=None):
    """Padding in half precision, if cuDNN's kernel runs."""
    from keras_bert_rebuild.kernels.jax_kernels import has_fused_kernel

    return not dropout and not causal and len(mask.shape) == 2 and not has_sequences(mask) and has_fused_kernel(query)


def takes_sequences(query, mask, causal, dropout, seeds=None):
    """Rows with several sequences on a GPU on which the kernel has passed its trial."""
    from keras_bert_rebuild.kernels.jax_trials import has_flash

    return not dropout and not causal and has_sequences(mask) and has_flash(query, dropout)


def attends_to_products(denses, heads, mask, causal, dropout):
    """Attention dropout or rows with several sequences, of plain products, on a GPU on which the kernel has passed its trial."""
    from keras_bert_rebuild.kernels.jax_trials import has_merged_flash

    needed = len(mask.shape) == 2 and (dropout > 0 or has_sequences(mask))
    alike = len({(dense.compute_dtype, dense.use_bias, dense.units) for dense in denses}) == 1
    return needed and not causal and alike and all(map(is_plain, denses)) and has_merged_flash(denses[0], heads, dropout)


def takes_splash(query, mask, causal, dropout, seeds=None):
    """Padding or rows with several sequences, if JAX's TPU kernel runs."""
    from keras_bert_rebuild.kernels.jax_segments import has_splash

    return not dropout and not causal and len(mask.shape) == 2 and has_splash(query)


def drops_in_flash(query, mask, causal, dropout, seeds=None):
    """Attention dropout on a GPU on which the kernel has passed its trial."""
    from keras_bert_rebuild.kernels.jax_trials import has_flash

    return dropout > 0 and not causal and len(mask.shape) == 2 and has_flash(query, dropout)


def drops_in_torch(query, mask, causal, dropout, seeds=None):
    """Attention dropout on a GPU, from the generator of the process: without a seed of the user's."""
    from keras_bert_rebuild.kernels.torch_kernels import is_on_gpu

    return dropout > 0 and is_on_gpu(query) and (seeds is None or seeds.get_config()["seed"] is None)


def drops_probabilities(query, mask, causal, dropout, seeds=None):
    """In training with attention dropout."""
    return dropout > 0


def attends_on_processor(query, mask, causal, dropout, seeds=None):
    """Without dropout, in bfloat16 on a processor."""
    return not dropout and not causal and multiplies_on_processor(keras.backend.standardize_dtype(query.dtype))


# Tokens with fewer numbers cost too little for the time that TensorFlow takes to compile another number of rows.
WIDE = 512


def skips_padding(width, mask):
    """In a step that reads nothing at padding, on a processor: rows with padding, of wide tokens."""
    return is_padding_unread() and mask is not None and len(mask.shape) == 2 and not has_sequences(mask) and width >= WIDE


# Texts of at most this many windows are compared as a whole.
WINDOWS = 8


def is_long(query, window):
    """Whether bands compare fewer pairs than full attention."""
    length = query.shape[1]
    return length is None or length > WINDOWS * window


def is_below_one(rate):
    """Whether any value is retained."""
    return rate < 1


def is_product(dense):
    """Whether a `Dense` is a product with its kernel plus its bias: not quantised and without an activation."""
    # Not `dtype_policy.quantization_mode`: a layer from a file may have a map of policies, which says nothing of a single layer.
    return dense.quantization_mode is None and dense.activation is keras.activations.linear


def is_plain(dense):
    """Whether the weights of such a product are all that the layer has, no adapters."""
    return is_product(dense) and not dense.lora_enabled


def is_half_product(dense):
    """Whether such a product is computed in half precision."""
    return is_product(dense) and is_half(dense.compute_dtype)


def is_product_on_processor(dense):
    """Whether such a product is computed in bfloat16 on a processor by JAX."""
    return is_product(dense) and multiplies_on_processor(dense.compute_dtype)


def multiplies_on_processor(dtype):
    """Whether JAX computes on a processor, in bfloat16."""
    from keras_bert_rebuild.kernels.jax_products import gives_float32

    return gives_float32(dtype)


def runs_on_cuda_or_processor():
    """Whether JAX computes on an NVIDIA GPU or on a processor."""
    from keras_bert_rebuild.kernels.jax_devices import is_on_cuda, is_on_processor

    return is_on_cuda() or is_on_processor()


def normalizes_in_one_pass(x, axis):
    """Layer normalisation of arrays that JAX's kernel for GPUs supports."""
    from keras_bert_rebuild.kernels.jax_trials import has_norm

    return has_norm(x, axis)


def changes_in_place(weight_dtype, moment_dtype, averages):
    """Whether there are no averaged weights, and moments have the dtype of the weight."""
    return not averages and weight_dtype == moment_dtype


def all_change_in_place(weights, momentums, averages):
    """The same for all variables, on a device for which torch has the kernel."""
    from keras_bert_rebuild.kernels.torch_adam import has_kernel

    pairs = zip(weights, momentums, strict=True)
    return all(changes_in_place(weight.dtype, momentum.dtype, averages) for weight, momentum in pairs) and has_kernel(weights)


def clips_on_cuda():
    """Whether JAX computes on NVIDIA GPUs, each of which has all gradients."""
    from keras_bert_rebuild.kernels.jax_devices import is_on_cuda, is_split_by_batch

    return is_on_cuda() and is_split_by_batch()


def on_one_device():
    """Outside a strategy with replicas."""
    from keras_bert_rebuild.kernels.tensorflow_adam import is_one_device

    return is_one_device()


def among_replicas():
    """In a step with several replicas."""
    from keras_bert_rebuild.kernels.tensorflow_replicas import are_several

    return are_several()
