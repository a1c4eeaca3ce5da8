"""Kernels: functions that compute a seam of the layers, or an operation, in the way that is best for a backend.

A kernel is decorated with what it replaces, on which backends, and under what condition. It has the arguments of the seam after a
first one: what it replaces, for cases that it passes on. Its docstring says why it exists and, in a line `Measured: ...`, where the
gain was measured: a heading of benchmarks/RESULTS.md, or a test.

Kernels of the same seam are asked in the order of their definition; the first whose condition holds runs, else the plain form.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from keras_bert_rebuild.kernels.traits import is_half
from keras_bert_rebuild.layers.activations import ACTIVATIONS
from keras_bert_rebuild.layers.masks import has_sequences
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_bert_rebuild.layers.seam import Kernel, attach

# Environment variable that lists kernels to leave out, read when the package is imported.
WITHOUT = "KERAS_BERT_WITHOUT_KERNELS"

BACKENDS = ("tensorflow", "jax", "torch")

# The kernels of the running backend by name, `module.function` in this folder, with the seams that they compute.
KERNELS: dict[str, list[Callable[..., Any]]] = {}


def kernel(
    replaced: Callable[..., Any],
    *backends: str,
    when: Callable[..., bool] | None = None,
    passes: tuple[Callable[..., Any], ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that makes a function a kernel.

    Args:
        replaced: the seam that it computes.
        *backends: the backends on which it runs.
        when: a function of the arguments of the seam: whether it runs for them; None for always.
        passes: other seams that it computes itself: not under a rule for one of them, nor in a class that overrides one.
    """

    def decorated(function):
        if keras.config.backend() in backends:
            name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
            KERNELS.setdefault(name, []).append(replaced)
            if name not in switched_off():
                attach(replaced, Kernel(function, always if when is None else when, passes))
        return function

    return decorated


def always(*args: Any, **kwargs: Any) -> bool:
    """No condition."""
    return True


def switched_off() -> frozenset[str]:
    """The kernels that `KERAS_BERT_WITHOUT_KERNELS` lists."""
    return frozenset(name.strip() for name in os.environ.get(WITHOUT, "").split(",") if name.strip())


def check_switched_off(modules: Mapping[str, Sequence[str]]) -> None:
    """Refuse names that no kernel has.

    Args:
        modules: the modules with kernels of each backend.

    Raises:
        ValueError: a name is neither that of a kernel of this backend, nor in a module of others only.
    """
    other_backends = {module for names in modules.values() for module in names}.difference(modules.get(keras.config.backend(), ()))
    wrong = sorted(name for name in switched_off() - KERNELS.keys() if name.rpartition(".")[0] not in other_backends)
    if wrong:
        names = ", ".join(sorted(KERNELS))
        raise ValueError(f"{WITHOUT} must have names of kernels, separated by commas, out of {names}; got {', '.join(wrong)}.")


OURS = frozenset(ACTIVATIONS.values())

# What kernels of `MultiHeadSelfAttention.attend` compute themselves.
FORMULA = (MultiHeadSelfAttention.probabilities, MultiHeadSelfAttention.scores)


def is_product(dense, *arguments):
    """Whether a `Dense` is a product with its kernel plus its bias: not quantised and without an activation."""
    # Not `dtype_policy.quantization_mode`: a layer from a file may have a map of policies, which says nothing of a single layer.
    return dense.quantization_mode is None and dense.activation is keras.activations.linear


def is_plain(dense):
    """Whether the weights of such a product are all that the layer has, no adapters."""
    return is_product(dense) and not dense.lora_enabled


def is_half_product(dense, *arguments):
    """Whether such a product is computed in half precision."""
    return is_product(dense) and is_half(dense.compute_dtype)


def activates_in_training(layer, x, training=None):
    """Whether this is training with an activation of ours: any other may have variables, for which a kernel has no gradient."""
    return bool(training) and layer.activation in OURS


def normalizes_in_training(layer, x, training=None):
    """Whether this is training of a norm with scale and offset."""
    return bool(training) and layer.gamma is not None and layer.beta is not None and not layer.rms_scaling


def drops_some(layer, x):
    """Whether any value is retained."""
    return layer.rate < 1


def drops(layer, training):
    """Whether probabilities of attention are dropped."""
    return layer.attention_dropout > 0 and bool(training)


def drops_probabilities(layer, query, key, value, mask=None, training=None, *shared):
    """Attention with dropout in training and with a mask, as `call` gives one, with no terms besides queries · keys."""
    return drops(layer, training) and mask is not None and not shared


def drops_nothing(layer, query, key, value, mask=None, training=None, *shared):
    """Attention without dropout and with a mask, as `call` gives one, with no terms besides queries · keys."""
    return not drops(layer, training) and mask is not None and not shared


def masks_keys(layer, mask):
    """Whether a mask of keys, `(batch, length)`, or of sequences is all that hides keys from queries."""
    return len(mask.shape) == 2 and layer.window is None and not layer.history_only


def masks_sequences(layer, mask):
    """Whether numbers of sequences are."""
    return masks_keys(layer, mask) and has_sequences(mask)


def norm_axis(layer):
    """The axes of the moments of a norm, a number or a tuple."""
    return tuple(layer.axis) if isinstance(layer.axis, (list, tuple)) else layer.axis
