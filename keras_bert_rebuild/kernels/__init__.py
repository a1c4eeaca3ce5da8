"""Code of the backends: kernels of the seams in the layers, and of the operations in `operations.py`.

The kernels of the running backend are attached when the package is imported.
"""

import importlib

import keras

from keras_bert_rebuild.kernels.kernel import check_switched_off
from keras_bert_rebuild.kernels.operations import (
    Unclipped,
    adam_step,
    adam_steps,
    bounded_scan,
    handed_over,
    mean_over_replicas,
    replica_count,
    sum_over_replicas,
    unclipped,
    unwritten,
    with_whole_weights,
)

__all__ = [
    "Unclipped",
    "adam_step",
    "adam_steps",
    "bounded_scan",
    "handed_over",
    "mean_over_replicas",
    "replica_count",
    "sum_over_replicas",
    "unclipped",
    "unwritten",
    "with_whole_weights",
]

# The modules with kernels of each backend, in the order in which their kernels of one seam are asked.
MODULES = {
    "tensorflow": (
        *("bands", "token_layout", "tensorflow_kernels", "tensorflow_norm", "tensorflow_dropout"),
        *("tensorflow_adam", "tensorflow_replicas", "fused_attention"),
    ),
    "jax": (
        *("bands", "jax_attention", "jax_dropout", "jax_dense"),
        *("jax_trials", "jax_operations", "jax_sharding", "fused_attention"),
    ),
    "torch": ("bands", "token_layout", "torch_kernels", "fused_attention"),
}

for _module in MODULES.get(keras.config.backend(), ()):
    importlib.import_module(f"keras_bert_rebuild.kernels.{_module}")
check_switched_off(MODULES)
