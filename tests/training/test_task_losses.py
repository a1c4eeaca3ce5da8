"""The losses of pretraining, fine-tuning and distillation against float64, that of a CRF against all sequences."""

import itertools

import keras
import numpy as np
import pytest
from helpers.reference import cross_entropy, softmax
from helpers.small import compiled, small_batch, small_model
from helpers.small_tasks import small_task
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_bert_rebuild.data.labelled.labelled_examples import Question
from keras_bert_rebuild.layers import ConditionalRandomField
from keras_bert_rebuild.tasks.question_answerer import QuestionAnswerer
from keras_bert_rebuild.training.losses import Perplexity, PretrainingLoss
from keras_bert_rebuild.training.task_losses import (
    ChoiceLoss,
    ConditionalRandomFieldLoss,
    DistilledLoss,
    LabelLoss,
    SpanLoss,
)

pytestmark = pytest.mark.backend


@given(arrays("float32", (3, 4, 6), elements=st.floats(-100, 100, width=32)), st.integers(0, 5))
def test_the_loss_is_exact_for_logits_up_to_100(logits, label):
    labels = np.full((3, 4), label)
    expected = cross_entropy(logits, labels).mean()
    assert float(PretrainingLoss()(labels, logits)) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert float(PretrainingLoss()(labels[..., None], logits)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_the_config_round_trip_preserves_the_number_of_predictions():
    copy = PretrainingLoss.from_config(PretrainingLoss(max_predictions=7, chunk=5, reduction="sum").get_config())
    assert copy.max_predictions == 7
    assert copy.chunk == 5
    assert copy.reduction == "sum"


def test_no_predictions_at_all_are_an_error():
    with pytest.raises(ValueError, match="max_predictions must be at least 1"):
        PretrainingLoss(max_predictions=0)
    with pytest.raises(ValueError, match="chunk must be at least 1 position"):
        PretrainingLoss(chunk=0)


@given(arrays("float32", (3, 6), elements=st.floats(-30, 30, width=32)), st.integers(0, 5))
def test_the_loss_of_probabilities_is_that_of_their_logits(logits, label):
    expected = cross_entropy(logits, np.full(3, label)).mean()
    probabilities = softmax(logits.astype("float64")).astype("float32")
    assert float(PretrainingLoss(from_logits=False)(np.full((3, 1), label), probabilities)) == pytest.approx(
        expected, rel=1e-5, abs=1e-6
    )


def test_a_probability_of_0_has_a_finite_loss():
    loss = PretrainingLoss(from_logits=False)
    assert float(loss(np.array([1]), np.array([[1.0, 0.0]], "float32"))) == pytest.approx(85.2, abs=0.1)
    assert PretrainingLoss.from_config(loss.get_config()).from_logits is False


@pytest.mark.parametrize("arguments", [{"max_predictions": 3}, {"chunk": 8}])
def test_gathering_and_chunks_need_logits(arguments):
    with pytest.raises(ValueError, match="max_predictions and chunk are for a loss from logits; got"):
        PretrainingLoss(from_logits=False, **arguments)


def test_every_position_counts_once_for_any_batches(rng):
    p = rng.dirichlet(np.ones(5), 12).astype("float32")
    labels = rng.integers(0, 5, 12)
    metric = Perplexity()
    for part in (slice(0, 2), slice(2, 12)):
        metric.update_state(labels[part], np.log(p[part]))
    assert float(metric.result()) == pytest.approx(np.exp(-np.log(p[np.arange(12), labels]).mean()), rel=1e-5)


def test_weights_count_and_labels_of_weight_0_may_be_anything():
    metric = Perplexity()
    metric.update_state(np.array([[0], [-100]]), np.log([[0.25, 0.75], [0.5, 0.5]]), sample_weight=np.array([1.0, 0.0]))
    assert float(metric.result()) == pytest.approx(4.0)


@pytest.mark.slow
def test_a_compiled_model_is_saved_with_it(rng, tmp_path):
    x, y = small_batch(rng)
    model = compiled(small_model(transformer_num=1), metrics=[["accuracy", Perplexity()], ["accuracy"]], max_predictions=4)
    logs = model.evaluate(x, y, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "MLM_loss", "NSP_loss", "MLM_accuracy", "MLM_perplexity", "NSP_accuracy"}
    assert logs["MLM_perplexity"] == pytest.approx(np.exp(logs["MLM_loss"]), rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.evaluate(x, y, verbose=0, return_dict=True) == pytest.approx(logs, rel=1e-6)


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


@pytest.mark.parametrize("loss", [LabelLoss([1.0, 2.0]), SpanLoss(), ChoiceLoss(), ConditionalRandomFieldLoss(name="chains")])
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


def test_a_chain_of_weight_2_counts_twice(rng, scores):
    layer, loss = layer_with(rng), ConditionalRandomFieldLoss()
    rows = [0, 0, 1]
    once = loss(Y[:2], layer(scores[:2]), sample_weight=np.array([2.0, 1.0]))
    twice = loss(Y[rows], layer(scores[rows]))
    assert number(once) * np.sum(Y[:2] != NONE) == pytest.approx(number(twice) * np.sum(Y[rows] != NONE), rel=1e-5)


def test_outputs_of_another_layer_are_one_sentence(scores):
    with pytest.raises(ValueError, match=r"a ConditionalRandomField, \(batch, 10, 3\) for labels of length 5; got the length 5"):
        ConditionalRandomFieldLoss()(Y, keras.ops.convert_to_tensor(scores))


def test_what_does_not_count_may_be_anything():
    loss = DistilledLoss()(np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), np.array([[1.0, np.inf, 2.0], [np.nan, -1.0, 6.0]]))
    assert float(loss) == pytest.approx(3.0)


def test_examples_have_weights():
    counts, values = np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [10.0, 5.0]])
    assert float(DistilledLoss()(counts, values, np.array([1.0, 0.5]))) == pytest.approx((1 + 2 + 5) / 2.5)


def test_nothing_that_counts_is_a_loss_of_0():
    assert float(DistilledLoss()(np.zeros((1, 2)), np.ones((1, 2)))) == 0.0
