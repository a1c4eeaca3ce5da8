"""The losses of fine-tuning, against plain NumPy."""

import keras
import numpy as np
import pytest
from helpers.reference import softmax
from helpers.small_tasks import small_task

from keras_bert_rebuild.data.labelled.labelled_examples import Question
from keras_bert_rebuild.tasks.question_answerer import QuestionAnswerer
from keras_bert_rebuild.training.task_losses import ChoiceLoss, CosineLoss, InBatchNegativesLoss, LabelLoss, SpanLoss


def cross_entropies(logits, labels):
    return -np.log(np.take_along_axis(softmax(logits), labels[..., None], axis=-1)[..., 0])


@pytest.mark.parametrize("shape", [(6,), (3, 5)])
def test_labels_count_with_the_weight_of_their_class_and_ignored_ones_not_at_all(rng, shape):
    labels, logits, weights = rng.integers(0, 3, shape), rng.normal(size=(*shape, 3)), np.array([1.0, 2.0, 5.0])
    labels.ravel()[:2] = -100
    kept = labels >= 0
    losses = cross_entropies(logits, np.maximum(labels, 0))[kept]
    assert float(LabelLoss()(labels, logits)) == pytest.approx(losses.mean(), rel=1e-5)
    weighted = float(LabelLoss(weights)(labels, logits))
    assert weighted == pytest.approx(np.average(losses, weights=weights[labels[kept]]), rel=1e-5)
    assert float(LabelLoss()(np.full(shape, -100), logits)) == 0


def test_the_mask_of_padding_does_not_weight_labels_a_second_time(rng):
    labels, logits = np.array([[1, 0, -100], [1, -100, -100]]), keras.ops.convert_to_tensor(rng.normal(size=(2, 3, 2)), "float32")
    expected = float(LabelLoss()(labels, logits))
    logits._keras_mask = keras.ops.convert_to_tensor(np.array([[True, True, False], [True, False, False]]))
    assert float(LabelLoss()(labels, logits)) == pytest.approx(expected)


def test_a_span_is_the_mean_of_both_ends_over_what_is_not_padding(rng):
    spans, logits = np.array([[1, 3], [0, 0]]), rng.normal(size=(2, 6, 2)).astype("float32")
    real = [6, 4]
    expected = np.mean([
        cross_entropies(logits[row, : real[row], end], np.array(spans[row, end])) for row in (0, 1) for end in (0, 1)
    ])  # fmt: skip
    y_pred = keras.ops.convert_to_tensor(logits)
    y_pred._keras_mask = keras.ops.convert_to_tensor(np.arange(6)[None] < np.array(real)[:, None])
    assert float(SpanLoss()(spans, y_pred)) == pytest.approx(expected, rel=1e-5)


def test_a_span_leaves_padding_out_inside_of_a_compiled_step_too():
    task = small_task(QuestionAnswerer)
    examples = [
        Question("1", "where", "the cat sat on the mat", ((4, "cat"),)),
        Question("2", "who likes the dog", "anna and ben likes the red dog in paris", ((0, "anna"),)),
    ]
    (ids, *others), spans = task.batches(task.encode(examples), 2)[0]
    logits = task.model.predict((ids, *others), verbose=0)
    real = (ids != 0).sum(axis=1)
    assert real[0] < real[1] <= ids.shape[1]
    expected = np.mean([
        cross_entropies(logits[row, : real[row], end], spans[row, end]) for row in (0, 1) for end in (0, 1)
    ])  # fmt: skip
    task.compile("sgd")
    assert task.model.evaluate((ids, *others), spans, verbose=0) == pytest.approx(expected, rel=1e-5)


def test_pairs_are_matched_within_the_batch(rng):
    vectors = rng.normal(size=(4, 2, 5))
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    scores = unit[:, 0] @ unit[:, 1].T * 7
    right = np.arange(4)
    expected = (cross_entropies(scores, right) + cross_entropies(scores.T, right)).mean() / 2
    got = InBatchNegativesLoss(scale=7)(np.zeros(8), vectors.reshape(8, 5))
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_cosines_must_match_scores(rng):
    vectors, scores = rng.normal(size=(4, 2, 5)), np.array([0.1, 0.9, 0.5, 0.0])
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in vectors]
    got = CosineLoss()(np.repeat(scores, 2), vectors.reshape(8, 5))
    assert float(got) == pytest.approx(np.mean((cosines - scores) ** 2), rel=1e-5)


def test_choices_are_compared_within_their_question_and_padding_rows_are_left_out(rng):
    logits = rng.normal(size=(2, 3))
    labels = np.repeat([[0.0, 1.0, 0.0], [1.0, 0.0, -1.0]], 3, axis=0)
    expected = (cross_entropies(logits[0], np.array(1)) + cross_entropies(logits[1, :2], np.array(0))) / 2
    assert float(ChoiceLoss()(labels, logits.reshape(6, 1))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", [LabelLoss([1.0, 2.0]), SpanLoss(), InBatchNegativesLoss(7.0), CosineLoss(), ChoiceLoss()])
def test_a_loss_round_trips_through_its_config(loss):
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()
