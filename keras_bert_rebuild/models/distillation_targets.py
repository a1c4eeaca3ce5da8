"""How far a student is from its teacher: in its distribution over the vocabulary, optionally in chunks, and in its relations
between tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from keras_bert_rebuild.kernels.gradients import with_gradient
from keras_bert_rebuild.layers.masks import visible_pairs
from keras_bert_rebuild.models.chunked_cross_entropy import chunk_of, gradients_of_factors, logits_of_chunk, padded


def soft_target_losses(teacher: Any, student: Any, temperature: float = 1.0) -> Any:
    """T² · KL(softmax(teacher / T) ‖ softmax(student / T)) of every position, in float32; 0 if both are equal.

    T² makes the size of the gradient independent of the temperature. The cross entropy with soft targets is this plus the entropy
    of the teacher, which has no gradient.

    Args:
        teacher, student: logits `(..., vocabulary)`.
        temperature: T, above 0.

    Returns:
        `(...)`.

    Reference: Hinton et al., 2015, section 2 (https://arxiv.org/abs/1503.02531).
    """
    theirs, mine = (ops.log_softmax(ops.cast(logits, "float32") / temperature) for logits in (teacher, student))
    return temperature**2 * _divergence(theirs, mine)


def chunked_soft_target_losses(teacher: tuple, student: tuple, chunk: int, temperature: float = 1.0) -> Any:
    """`soft_target_losses` from the factors of the logits, `logits = features · tableᵀ + bias`.

    Logits are computed chunk by chunk and recomputed in the backward pass: memory holds `(chunk, vocabulary)` a few times and never
    `(positions, vocabulary)`. Only the student has gradients.

    Args:
        teacher, student: features `(positions, width)`, a table `(vocabulary, width)` and a bias `(vocabulary,)`; the widths may
            differ.
        chunk: number of positions in a chunk.
        temperature: as for `soft_target_losses`.

    Returns:
        `(positions,)`, float32.
    """
    teacher = tuple(ops.stop_gradient(part) for part in teacher)
    return with_gradient(_chunked_losses, student, teacher, chunk=chunk, temperature=temperature)


def _chunked_losses(features, table, bias, rows, of_table, of_bias, chunk, temperature):
    """The result of `chunked_soft_target_losses`, and its gradient."""
    positions = ops.shape(features)[0]
    count = (positions + chunk - 1) // chunk
    features, rows = padded(features, count * chunk), padded(rows, count * chunk)

    def teacher_logs(i):
        return ops.log_softmax(logits_of_chunk(rows, of_table, of_bias, i, chunk) / temperature)

    def student_logs(i):
        return ops.log_softmax(logits_of_chunk(features, table, bias, i, chunk) / temperature)

    def forward(i, values):
        return ops.slice_update(values, (i * chunk,), temperature**2 * _divergence(teacher_logs(i), student_logs(i)))

    values = ops.fori_loop(0, count, forward, ops.zeros((count * chunk,), "float32"))

    def gradient(upstream):
        scale = temperature * padded(upstream, count * chunk)

        def logit_gradients(i):
            return chunk_of(scale, i, chunk)[:, None] * (ops.exp(student_logs(i)) - ops.exp(teacher_logs(i)))

        return gradients_of_factors(features, table, bias, logit_gradients, chunk, positions)

    return values[:positions], gradient


def _divergence(theirs, mine):
    """KL divergence over the last axis, from log-probabilities."""
    return ops.sum(ops.exp(theirs) * (theirs - mine), axis=-1)


def relation_losses(
    teacher: Mapping[str, Any], student: Mapping[str, Any], relations: Sequence[tuple[str, str]], heads: int, mask: Any = None
) -> Any:
    """The divergence of a student's relations from its teacher's, for every token.

        R_xy = softmax(X_h Y_hᵀ / √K)        X, Y = queries, keys or values of a block, in heads h of width K = D / heads
        loss(token) = Σ_xy mean_h KL(R_xy of the teacher ‖ R_xy of the student)[token]

    Relation heads are not attention heads: the vectors of all attention heads are concatenated and split again, so that models with
    different numbers of heads and different widths can be compared.

    Args:
        teacher, student: vectors `(batch, length, width)` by name, "query", "key" or "value"; the widths may differ.
        relations: pairs of these names.
        heads: number of relation heads, which divides both widths.
        mask: `(batch, length)`, False at padding; or the numbers of sequences, within which tokens are related; None for no
            padding.

    Returns:
        `(batch, length)`, float32. Values at padding are undefined.

    Reference: Wang et al., 2021, section 3, for MiniLMv2 (https://arxiv.org/abs/2012.15828).
    """
    visible = None if mask is None else visible_pairs(mask)
    total: Any = 0.0
    for one, other in relations:
        theirs, mine = (_log_relations(vectors[one], vectors[other], heads, visible) for vectors in (teacher, student))
        total = total + ops.mean(ops.sum(ops.exp(theirs) * (theirs - mine), axis=-1), axis=1)  # (B, H, L, S) → (B, L)
    return total


def _log_relations(one, other, heads, visible):
    one, other = (_by_heads(vectors, heads) for vectors in (one, other))
    scores = ops.cast(ops.einsum("blhk,bshk->bhls", one, other), "float32") / float(one.shape[-1]) ** 0.5
    scores = scores if visible is None else ops.where(visible, scores, -1e30)
    # Not log_softmax: Keras warns if there is a single key, as in a text of one token.
    return scores - ops.logsumexp(scores, axis=-1, keepdims=True)


def _by_heads(vectors, heads):
    shape = ops.shape(vectors)
    return ops.reshape(vectors, (shape[0], shape[1], heads, vectors.shape[-1] // heads))  # (B, L, D) → (B, L, H, K)
