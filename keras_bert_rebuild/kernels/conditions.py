"""When the kernels of `table.py` apply: each condition takes the arguments that `choose` is given for its operation."""

import keras

from keras_bert_rebuild.kernels.sequences import has_sequences


def always(*arguments):
    """A kernel without a condition."""
    return True


def has_pairs_in_cudnn(query, mask, causal, dropout):
    """Pairs pass three times, in two bytes each; to move keys and values and back is eight passes over numbers of two bytes."""
    from keras_bert_rebuild.kernels.jax_kernels import has_fused_kernel

    length, of_keys = query.shape[1], mask.shape[-1]
    short = len(mask.shape) == 4 or length <= 2 * query.shape[2] * query.shape[3]
    return not dropout and not causal and short and length % 2 == 0 and of_keys % 2 == 0 and has_fused_kernel(query)


def takes_key_lengths(query, mask, causal, dropout):
    """Padding, in half precision, where cuDNN runs."""
    from keras_bert_rebuild.kernels.jax_kernels import has_fused_kernel

    return not dropout and not causal and len(mask.shape) == 2 and not has_sequences(mask) and has_fused_kernel(query)


def takes_sequences(query, mask, causal, dropout):
    """Rows of several sequences, where JAX's kernel for GPUs runs."""
    from keras_bert_rebuild.kernels.jax_segments import has_flash_with_segments

    return not dropout and not causal and has_sequences(mask) and has_flash_with_segments(query)


def takes_splash(query, mask, causal, dropout):
    """Padding or rows of several sequences, where JAX's kernel for TPUs runs."""
    from keras_bert_rebuild.kernels.jax_segments import has_splash

    return not dropout and not causal and len(mask.shape) == 2 and has_splash(query)


def drops_in_flash(query, mask, causal, dropout):
    """Dropout of probabilities on a GPU, where the kernel for it has computed what it should."""
    from keras_bert_rebuild.kernels.jax_flash_trial import has_flash_with_dropout

    return dropout > 0 and not causal and len(mask.shape) == 2 and has_flash_with_dropout(query)


def drops_probabilities(query, mask, causal, dropout):
    """In training with attention dropout."""
    return dropout > 0


# Lengths that are this many windows or fewer are compared as a whole.
WINDOWS = 8


def is_long(query, window):
    """Whether bands compare fewer pairs than the whole."""
    length = query.shape[1]
    return length is None or length > WINDOWS * window


def is_below_one(rate):
    """Whether anything is kept."""
    return rate < 1


def is_linear(dense):
    """Whether a `Dense` has no activation."""
    return dense.activation is keras.activations.linear


def is_plain(dense):
    """Whether a `Dense` is only a product with its kernel plus its bias: not quantised and without adapters."""
    return dense.dtype_policy.quantization_mode is None and not dense.lora_enabled and is_linear(dense)


def changes_in_place(weight_dtype, moment_dtype, averages):
    """Whether there are no averages and the moments have the dtype of the weight."""
    return not averages and weight_dtype == moment_dtype


def on_one_device():
    """Outside a strategy with replicas."""
    from keras_bert_rebuild.kernels.tensorflow_adam import is_one_device

    return is_one_device()


def among_replicas():
    """In a step of several replicas."""
    from keras_bert_rebuild.kernels.tensorflow_replicas import are_several

    return are_several()
