"""The divergence of a student's distribution from its teacher's, against float64, in one piece and by chunks."""

import numpy as np
import pytest
from helpers.gradients import value_and_gradients
from keras import ops

from keras_bert_rebuild.models.distillation_targets import chunked_soft_target_losses, soft_target_losses


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def reference(teacher, student, temperature):
    """T² · KL, and its gradient for the student's logits, T · (p_student − p_teacher)."""
    theirs, mine = (log_softmax(logits / temperature) for logits in (teacher, student))
    return temperature**2 * (np.exp(theirs) * (theirs - mine)).sum(-1), temperature * (np.exp(mine) - np.exp(theirs))


def factors(rng, positions=7, width=5, vocabulary=11):
    return rng.normal(size=(positions, width)), rng.normal(size=(vocabulary, width)), rng.normal(size=vocabulary)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_losses_and_gradients_are_those_of_float64(rng, temperature):
    teacher, student, upstream = rng.normal(size=(2, 3, 9)), rng.normal(size=(2, 3, 9)), rng.normal(size=(2, 3))
    expected, gradient = reference(teacher, student, temperature)
    fixed = ops.convert_to_tensor(teacher, dtype="float32")
    got = value_and_gradients(lambda logits: soft_target_losses(fixed, logits, temperature), upstream, student)
    np.testing.assert_allclose(got[0], expected, atol=1e-5)
    np.testing.assert_allclose(got[1], gradient * upstream[..., None], atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 4, 20])
def test_chunks_change_neither_losses_nor_gradients(rng, chunk):
    teacher, student, upstream = factors(rng, width=3), factors(rng), rng.normal(size=7)
    logits = [features @ table.T + bias for features, table, bias in (teacher, student)]
    expected, gradient = reference(*logits, 2.0)
    gradient = gradient * upstream[:, None]
    fixed = tuple(ops.convert_to_tensor(part, dtype="float32") for part in teacher)
    got = value_and_gradients(lambda *parts: chunked_soft_target_losses(fixed, parts, chunk, 2.0), upstream, *student)
    wanted = expected, gradient @ student[1], gradient.T @ student[0], gradient.sum(0)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)


def test_a_student_equal_to_its_teacher_is_at_the_minimum(rng):
    parts, upstream = factors(rng), np.ones(7)
    fixed = tuple(ops.convert_to_tensor(part, dtype="float32") for part in parts)
    for got in value_and_gradients(lambda *parts: chunked_soft_target_losses(fixed, parts, 3, 2.0), upstream, *parts):
        np.testing.assert_allclose(got, 0, atol=1e-5)
    assert (reference(rng.normal(size=(50, 9)), rng.normal(size=(50, 9)), 2.0)[0] > 0).all()


def test_logits_of_a_thousand_are_exact():
    teacher, student = ops.convert_to_tensor([[1000.0, 0.0]]), ops.convert_to_tensor([[0.0, 1000.0]])
    assert float(soft_target_losses(teacher, student)[0]) == 1000.0
