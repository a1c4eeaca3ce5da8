"""Values of tokens against float64: divergences from a teacher, log-probabilities by chunks, relations, weights of words."""

import numpy as np
import pytest
from helpers.kernel_checks import value_and_gradients
from helpers.reference import cross_entropy
from keras import ops

from keras_bert_rebuild.models.chunked_cross_entropy import LABEL_COLUMN, label_log_probabilities
from keras_bert_rebuild.models.distillation_targets import chunked_soft_target_losses, relation_losses, soft_target_losses
from keras_bert_rebuild.models.vocabulary_pooling import max_logits, sums_of_weights

pytestmark = pytest.mark.backend


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def divergence(teacher, student, temperature):
    """T² · KL, and its gradient for the student's logits, T · (p_student − p_teacher)."""
    theirs, mine = (log_softmax(logits / temperature) for logits in (teacher, student))
    return temperature**2 * (np.exp(theirs) * (theirs - mine)).sum(-1), temperature * (np.exp(mine) - np.exp(theirs))


def factors(rng, positions=7, width=5, vocabulary=11):
    return rng.normal(size=(positions, width)), rng.normal(size=(vocabulary, width)), rng.normal(size=vocabulary)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_losses_and_gradients_are_those_of_float64(rng, temperature):
    teacher, student, upstream = rng.normal(size=(2, 3, 9)), rng.normal(size=(2, 3, 9)), rng.normal(size=(2, 3))
    expected, gradient = divergence(teacher, student, temperature)
    fixed = ops.convert_to_tensor(teacher, dtype="float32")
    got = value_and_gradients(lambda logits: soft_target_losses(fixed, logits, temperature), upstream, student)
    np.testing.assert_allclose(got[0], expected, atol=1e-5)
    np.testing.assert_allclose(got[1], gradient * upstream[..., None], atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 4, 20])
def test_chunks_change_neither_losses_nor_gradients(rng, chunk):
    teacher, student, upstream = factors(rng, width=3), factors(rng), rng.normal(size=7)
    logits = [features @ table.T + bias for features, table, bias in (teacher, student)]
    expected, gradient = divergence(*logits, 2.0)
    gradient = gradient * upstream[:, None]
    fixed = tuple(ops.convert_to_tensor(part, dtype="float32") for part in teacher)
    got = value_and_gradients(lambda *parts: chunked_soft_target_losses(fixed, parts, chunk, 2.0), upstream, *student)
    wanted = expected, gradient @ student[1], gradient.T @ student[0], gradient.sum(0)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)


def test_divergences_of_logits_of_a_thousand_are_exact():
    teacher, student = ops.convert_to_tensor([[1000.0, 0.0]]), ops.convert_to_tensor([[0.0, 1000.0]])
    assert float(soft_target_losses(teacher, student)[0]) == 1000.0


def log_probabilities(features, table, bias, labels, chunk):
    tensors = [ops.convert_to_tensor(np.asarray(x, dtype)) for x, dtype in ((features, "float32"), (table, "float32"))]
    return ops.convert_to_numpy(
        label_log_probabilities(*tensors, ops.convert_to_tensor(bias), ops.convert_to_tensor(np.int32(labels)), chunk)
    )


@pytest.mark.parametrize("chunk", [1, 4, 7, 20])
def test_columns_are_the_label_and_the_most_probable_token(rng, chunk):
    features, table, bias = rng.normal(size=(7, 5)), rng.normal(size=(11, 5)), rng.normal(size=11).astype("float32")
    scores = features @ table.T + bias
    labels = np.where(np.arange(7) < 3, scores.argmax(-1), rng.integers(0, 11, 7))
    got = log_probabilities(features, table, bias, labels, chunk)
    np.testing.assert_allclose(-got[:, LABEL_COLUMN], cross_entropy(scores, labels), atol=1e-5)
    missed = labels != scores.argmax(-1)
    np.testing.assert_array_equal(got.argmax(-1) != LABEL_COLUMN, missed)
    np.testing.assert_allclose(-got[missed, 1 - LABEL_COLUMN], cross_entropy(scores, scores.argmax(-1))[missed], atol=1e-5)


def test_the_first_of_equal_tokens_is_the_prediction():
    got = log_probabilities(np.ones((2, 1)), np.ones((3, 1)), np.zeros(3, "float32"), [0, 1], 2)
    assert got.argmax(-1).tolist() == [LABEL_COLUMN, 1 - LABEL_COLUMN]


def test_log_probabilities_of_logits_of_a_thousand_are_exact():
    got = log_probabilities(np.full((1, 1), 1000.0), np.array([[1.0], [-1.0]]), np.zeros(2, "float32"), [1], 1)
    assert got[0, LABEL_COLUMN] == -2000.0


SELF = (("query", "query"), ("key", "key"), ("value", "value"))


def vectors(rng, rows, length, width):
    return {name: rng.normal(size=(rows, length, width)) for name in ("query", "key", "value")}


def relations(given, one, other, heads):
    """The distributions of one text, `(heads, length, length)`."""
    split = [np.stack(np.split(given[name], heads, axis=-1)) for name in (one, other)]
    scores = split[0] @ split[1].transpose(0, 2, 1) / np.sqrt(split[0].shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def divergence_of_relations(teacher, student, pairs, heads):
    """The losses of the tokens of one text."""
    total = 0.0
    for one, other in pairs:
        theirs, mine = (relations(given, one, other, heads) for given in (teacher, student))
        total = total + (theirs * np.log(theirs / mine)).sum(-1).mean(0)
    return total


def tensors(given):
    return {name: ops.convert_to_tensor(array, dtype="float32") for name, array in given.items()}


def text(given, row, part):
    return {name: array[row, part] for name, array in given.items()}


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("pairs", [SELF, (("query", "key"), ("value", "value"))])
def test_losses_of_real_tokens_are_those_of_the_text_alone(rng, heads, pairs):
    teacher, student = vectors(rng, 2, 7, 12), vectors(rng, 2, 7, 8)
    mask = np.arange(7) < np.array([[7], [4]])
    got = ops.convert_to_numpy(relation_losses(tensors(teacher), tensors(student), pairs, heads, ops.convert_to_tensor(mask)))
    for row, length in enumerate((7, 4)):
        part = slice(0, length)
        np.testing.assert_allclose(
            got[row, part], divergence_of_relations(text(teacher, row, part), text(student, row, part), pairs, heads), atol=1e-5
        )
    assert np.isfinite(got).all()


def test_tokens_of_a_packed_row_relate_to_their_own_sequence(rng):
    teacher, student = vectors(rng, 1, 8, 6), vectors(rng, 1, 8, 4)
    numbers = np.array([[1, 1, 1, 4, 4, 4, 4, 0]], "int32")
    got = ops.convert_to_numpy(relation_losses(tensors(teacher), tensors(student), SELF, 2, ops.convert_to_tensor(numbers)))
    for part in (slice(0, 3), slice(3, 7)):
        np.testing.assert_allclose(
            got[0, part], divergence_of_relations(text(teacher, 0, part), text(student, 0, part), SELF, 2), atol=1e-5
        )


def test_equal_vectors_are_at_the_minimum_and_padding_has_no_gradient(rng):
    given, mask = vectors(rng, 1, 5, 4), np.array([[True, True, True, False, False]])
    teacher = tensors(given)

    def losses(query, key, value):
        student = {"query": query, "key": key, "value": value}
        return relation_losses(teacher, student, SELF, 2, ops.convert_to_tensor(mask))

    for got in value_and_gradients(losses, mask.astype("float32"), *given.values()):
        np.testing.assert_allclose(got, 0, atol=1e-6)
    other = vectors(rng, 1, 5, 4)
    value, *gradients = value_and_gradients(losses, mask.astype("float32"), *other.values())
    assert (value[mask] > 1e-3).all()
    for gradient in gradients:
        assert (gradient[0, 3:] == 0).all()
        assert (gradient[0, :3] != 0).all()


@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_values_and_gradients_are_those_of_the_logits_of_all_tokens(rng, pooling):
    features = rng.normal(size=(6, 5, 3)).astype("float32")  # one and a half parts
    table, bias = rng.normal(size=(11, 3)).astype("float32"), rng.normal(size=11).astype("float32")
    real = np.ones((6, 5), "float32")
    real[1, 3:] = real[5, :2] = 0

    def pooled(features, table, bias):
        if pooling == "max":
            return ops.log1p(ops.maximum(max_logits(features, table, bias, ops.convert_to_tensor(real)), 0.0))
        return sums_of_weights(features, table, bias, ops.convert_to_tensor(real), 2)

    def plain(features, table, bias):
        logits = ops.einsum("bld,vd->blv", features, table) + bias
        weights = ops.log1p(ops.maximum(logits, 0.0)) * ops.convert_to_tensor(real)[..., None]
        return ops.max(weights, axis=1) if pooling == "max" else ops.sum(ops.log1p(weights), axis=1)

    upstream = rng.normal(size=(6, 11)).astype("float32")
    for ours, theirs in zip(
        value_and_gradients(pooled, upstream, features, table, bias),
        value_and_gradients(plain, upstream, features, table, bias),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
