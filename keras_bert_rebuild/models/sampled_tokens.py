"""Tokens sampled from logits with given random numbers."""

from typing import Any

from keras import ops

from keras_bert_rebuild.anatomy.draws import DRAW_BITS


def sample_tokens(logits: Any, draws: Any) -> Any:
    """The tokens that random numbers select from the softmax of logits; no gradient flows through them.

        u = draw / 2²⁴        token = the first k with p[0] + … + p[k] > u

    Since the numbers are given, a step samples the same tokens on every backend, on any number of devices, and in a resumed run.
    Probabilities are in float32 under any dtype policy.

    Args:
        logits: `(..., vocabulary)`.
        draws: whole numbers in [0, 2²⁴), `(...)`.

    Returns:
        Token ids, int32 `(...)`.

    Reference: Devroye, 1986, "Non-Uniform Random Variate Generation", section III.2 (inversion by sequential search).
    """
    sums = ops.cumsum(ops.softmax(ops.cast(ops.stop_gradient(logits), "float32")), axis=-1)
    limits = ops.cast(draws, "float32")[..., None] * 2.0**-DRAW_BITS * sums[..., -1:]
    tokens = ops.sum(ops.cast(sums <= limits, "int32"), axis=-1)
    return ops.minimum(tokens, logits.shape[-1] - 1)  # u may be rounded up to the total of the probabilities
