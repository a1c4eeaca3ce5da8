"""The KL divergence of a student's distribution over the vocabulary from its teacher's, optionally in chunks."""

from typing import Any

from keras import ops

from keras_bert_rebuild.kernels.gradients import with_gradient
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

        def of_logits(i):
            return chunk_of(scale, i, chunk)[:, None] * (ops.exp(student_logs(i)) - ops.exp(teacher_logs(i)))

        return gradients_of_factors(features, table, bias, of_logits, chunk, positions)

    return values[:positions], gradient


def _divergence(theirs, mine):
    """KL divergence over the last axis, from log-probabilities."""
    return ops.sum(ops.exp(theirs) * (theirs - mine), axis=-1)
