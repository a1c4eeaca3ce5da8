"""The losses of fine-tuning and distillation against plain NumPy, that of a CRF against an enumeration of all sequences."""

import itertools

import keras
import numpy as np
import pytest
from helpers.reference import softmax
from helpers.small_tasks import small_task

from keras_bert_rebuild.data.labelled.labelled_examples import Question
from keras_bert_rebuild.layers import ConditionalRandomField
from keras_bert_rebuild.tasks.question_answerer import QuestionAnswerer
from keras_bert_rebuild.training.task_losses import (
    ChoiceLoss,
    ConditionalRandomFieldLoss,
    DistilledLoss,
    LabelLoss,
    SpanLoss,
)


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


def test_choices_are_compared_within_their_question_and_padding_rows_are_left_out(rng):
    logits = rng.normal(size=(2, 3))
    labels = np.repeat([[0.0, 1.0, 0.0], [1.0, 0.0, -1.0]], 3, axis=0)
    expected = (cross_entropies(logits[0], np.array(1)) + cross_entropies(logits[1, :2], np.array(0))) / 2
    assert float(ChoiceLoss()(labels, logits.reshape(6, 1))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", [LabelLoss([1.0, 2.0]), SpanLoss(), ChoiceLoss()])
def test_a_loss_round_trips_through_its_config(loss):
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()


LABELS = 3
NONE = -100
Y = np.array([[NONE, 1, NONE, 2, 0], [2, 2, 1, 0, 1], [NONE, 0, NONE, NONE, NONE], [NONE] * 5])


@pytest.fixture
def scores(rng):
    return rng.normal(size=(len(Y), Y.shape[1], LABELS)).astype("float32")


def number(tensor):
    return float(keras.ops.convert_to_numpy(tensor))


def layer_with(rng, spread=1.0):
    layer = ConditionalRandomField()
    layer.build((None, None, LABELS))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape) * spread)
    return layer


def plain_score(scores, own, labels):
    between, begin, end = own[:LABELS], own[LABELS], own[LABELS + 1]
    follow = sum(between[pair] for pair in itertools.pairwise(labels))
    return begin[labels[0]] + sum(scores[i, label] for i, label in enumerate(labels)) + follow + end[labels[-1]]


def plain_loss(scores, own, labels):
    """−log of the probability of one sequence among all."""
    kept = labels != NONE
    scores, labels = scores[kept].astype("float64"), labels[kept]
    if not len(labels):
        return 0.0
    every = [plain_score(scores, own, row) for row in itertools.product(range(LABELS), repeat=len(labels))]
    return np.log(np.sum(np.exp(every))) - plain_score(scores, own, labels)


def test_the_loss_of_a_chain_equals_the_enumeration_of_all_sequences(rng, scores):
    layer = layer_with(rng)
    expected = [plain_loss(row, layer.transitions, labels) for row, labels in zip(scores, Y, strict=True)]
    got = ConditionalRandomFieldLoss(reduction=None)(Y, layer(scores))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(got), expected, atol=1e-5)
    mean = ConditionalRandomFieldLoss()(Y, layer(scores))
    assert number(mean) == pytest.approx(np.sum(expected) / np.sum(Y != NONE), rel=1e-5)


def test_without_transitions_it_is_the_cross_entropy_of_labels(scores):
    layer = ConditionalRandomField()
    got = ConditionalRandomFieldLoss()(Y, layer(scores))
    assert number(got) == pytest.approx(number(LabelLoss()(Y, keras.ops.convert_to_tensor(scores))), rel=1e-6)


def test_padding_and_positions_without_a_label_change_nothing(rng, scores):
    layer, loss = layer_with(rng), ConditionalRandomFieldLoss()
    expected = number(loss(Y, layer(scores)))
    wide = np.concatenate([scores, rng.normal(size=(len(Y), 4, LABELS)).astype("float32") * 9], axis=1)
    padded = np.concatenate([Y, np.full((len(Y), 4), NONE)], axis=1)
    assert number(loss(padded, layer(wide))) == pytest.approx(expected, rel=1e-6)
    other = np.where(Y[..., None] == NONE, 7.0, scores).astype("float32")
    assert number(loss(Y, layer(other))) == pytest.approx(expected, rel=1e-6)


def test_masked_positions_are_left_out(rng, scores):
    y = np.array([[1, 2, 0, 0, 0], [1, 0, 2, 0, 0]])
    ids = np.array([[3, 4, 0, 0, 0], [5, 6, 7, 0, 0]])
    table = keras.layers.Embedding(8, LABELS, mask_zero=True, embeddings_initializer=keras.initializers.RandomNormal(seed=1))
    layer = layer_with(rng)
    ignored = np.where(ids == 0, NONE, y)
    expected = number(ConditionalRandomFieldLoss()(ignored, layer(keras.ops.convert_to_numpy(table(ids)))))
    assert number(ConditionalRandomFieldLoss()(y, layer(table(ids)))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_step_follows_the_gradient_of_finite_differences(rng, scores, jit_compile):
    if jit_compile and keras.config.backend() == "torch":
        pytest.skip("torch.compile needs a compiler of C++")
    inputs = keras.Input((None, LABELS))
    layer = ConditionalRandomField(name="crf")
    model = keras.Model(inputs, layer(inputs))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    before = [keras.ops.convert_to_numpy(weight).astype("float64") for weight in layer.weights]
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=ConditionalRandomFieldLoss(), jit_compile=jit_compile)
    model.train_on_batch(scores, Y)
    after = [keras.ops.convert_to_numpy(weight) for weight in layer.weights]
    count, epsilon = np.sum(Y != NONE), 1e-5

    def total(weights):
        own = np.concatenate([np.atleast_2d(weight) for weight in weights])
        return sum(plain_loss(row, own, labels) for row, labels in zip(scores, Y, strict=True)) / count

    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        for place in np.ndindex(old.shape):
            ends = []
            for sign in (1, -1):
                weights = [weight.copy() for weight in before]
                weights[number][place] += sign * epsilon
                ends.append(total(weights))
            assert old[place] - new[place] == pytest.approx((ends[0] - ends[1]) / (2 * epsilon), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, "auto"])
def test_a_chain_learns_what_single_positions_do_not_show(rng, jit_compile):
    """Labels in a cycle, from scores that show only where the cycle starts."""
    x = np.zeros((16, 6, LABELS), "float32")
    y = (np.arange(6) + rng.integers(0, LABELS, (16, 1))) % LABELS
    x[np.arange(16), 0, y[:, 0]] = 5.0
    inputs = keras.Input((None, LABELS))
    layer = ConditionalRandomField(name="crf")
    model = keras.Model(inputs, layer(inputs))
    model.compile(optimizer=keras.optimizers.Adam(0.3), loss=ConditionalRandomFieldLoss(), jit_compile=jit_compile)
    losses = model.fit(x, y, epochs=20, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 5
    assert layer.decode(model.predict(x, verbose=0)).tolist() == y.tolist()


def test_a_chain_of_weight_2_counts_twice(rng, scores):
    layer, loss = layer_with(rng), ConditionalRandomFieldLoss()
    rows = [0, 0, 1]
    once = loss(Y[:2], layer(scores[:2]), sample_weight=np.array([2.0, 1.0]))
    twice = loss(Y[rows], layer(scores[rows]))
    assert number(once) * np.sum(Y[:2] != NONE) == pytest.approx(number(twice) * np.sum(Y[rows] != NONE), rel=1e-5)


def test_outputs_of_another_layer_are_one_sentence(scores):
    with pytest.raises(ValueError, match=r"a ConditionalRandomField, \(batch, 10, 3\) for labels of length 5; got the length 5"):
        ConditionalRandomFieldLoss()(Y, keras.ops.convert_to_tensor(scores))


def test_the_loss_round_trips_through_its_config():
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(ConditionalRandomFieldLoss(name="chains")))
    assert isinstance(loss, ConditionalRandomFieldLoss)
    assert loss.name == "chains"


def test_what_does_not_count_may_be_anything():
    loss = DistilledLoss()(np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), np.array([[1.0, np.inf, 2.0], [np.nan, -1.0, 6.0]]))
    assert float(loss) == pytest.approx(3.0)


def test_examples_have_weights():
    counts, values = np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [10.0, 5.0]])
    assert float(DistilledLoss()(counts, values, np.array([1.0, 0.5]))) == pytest.approx((1 + 2 + 5) / 2.5)


def test_nothing_that_counts_is_a_loss_of_0():
    assert float(DistilledLoss()(np.zeros((1, 2)), np.ones((1, 2)))) == 0.0
