"""One interface to backend kernels: operations that layers and optimizers call by name."""

from keras_bert_rebuild.kernels.operations import (
    Unclipped,
    activated_dense,
    adam_step,
    add_bias,
    attention,
    attention_of_inputs,
    bounded_scan,
    dense,
    dropout,
    in_one_kernel,
    layer_normalization,
    mean_over_replicas,
    replica_count,
    sum_over_replicas,
    unclipped,
    windowed_attention,
)
from keras_bert_rebuild.kernels.sequences import both_masks, has_sequences, positions_in_sequences, visible_pairs

__all__ = [
    "Unclipped",
    "activated_dense",
    "adam_step",
    "add_bias",
    "attention",
    "attention_of_inputs",
    "both_masks",
    "bounded_scan",
    "dense",
    "dropout",
    "has_sequences",
    "in_one_kernel",
    "layer_normalization",
    "mean_over_replicas",
    "positions_in_sequences",
    "replica_count",
    "sum_over_replicas",
    "unclipped",
    "visible_pairs",
    "windowed_attention",
]
