"""Relations of tokens in attention, against NumPy: any number of heads, no padding, no neighbouring sequence."""

import numpy as np
import pytest
from helpers.gradients import value_and_gradients
from keras import ops

from keras_bert_rebuild.models.distillation_targets import relation_losses

SELF = (("query", "query"), ("key", "key"), ("value", "value"))


def vectors(rng, rows, length, width):
    return {name: rng.normal(size=(rows, length, width)) for name in ("query", "key", "value")}


def relations(given, one, other, heads):
    """The distributions of one text, `(heads, length, length)`."""
    split = [np.stack(np.split(given[name], heads, axis=-1)) for name in (one, other)]
    scores = split[0] @ split[1].transpose(0, 2, 1) / np.sqrt(split[0].shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def reference(teacher, student, pairs, heads):
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
            got[row, part], reference(text(teacher, row, part), text(student, row, part), pairs, heads), atol=1e-5
        )
    assert np.isfinite(got).all()


def test_tokens_of_a_packed_row_relate_to_their_own_sequence(rng):
    teacher, student = vectors(rng, 1, 8, 6), vectors(rng, 1, 8, 4)
    numbers = np.array([[1, 1, 1, 4, 4, 4, 4, 0]], "int32")
    got = ops.convert_to_numpy(relation_losses(tensors(teacher), tensors(student), SELF, 2, ops.convert_to_tensor(numbers)))
    for part in (slice(0, 3), slice(3, 7)):
        np.testing.assert_allclose(got[0, part], reference(text(teacher, 0, part), text(student, 0, part), SELF, 2), atol=1e-5)


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
