"""The losses and accuracies that a model reports are means over all labels, however they are batched."""

import h5py
import keras
import numpy as np
import pytest
from helpers.reference import cross_entropy
from helpers.small import LENGTH, VOCAB, compiled, small_model, spread
from helpers.tiny_training import NumberedBatches

from keras_bert_rebuild import BertModel
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.training.losses import Perplexity, PretrainingLoss
from keras_bert_rebuild.training.pair_losses import CosineLoss
from keras_bert_rebuild.training.task_losses import ChoiceLoss, LabelLoss, SpanLoss

pytestmark = pytest.mark.backend

EXAMPLES, SHORT = 16, 6
# Means over examples or batches differ by far more.
EXACT = 1e-6


@pytest.fixture(scope="module")
def weights():
    """Weights far from the initial ones: losses of single tokens are from 0 to 20."""
    return spread(small_model(), np.random.default_rng(3)).get_weights()


@pytest.fixture(scope="module")
def data(weights):
    """Examples with 1 to 8 labels, about half of which are right; the second half of them has no more than six tokens."""
    rng = np.random.default_rng(5)
    tokens, labels = np.r_[rng.integers(9, LENGTH + 1, 8), rng.integers(5, SHORT + 1, 8)], np.r_[1:9, 1, 1, 2, 2, 3, 4, 4, 1]
    ids = np.where(np.arange(LENGTH) < tokens[:, None], rng.integers(5, VOCAB, (EXAMPLES, LENGTH)), 0)
    chosen = np.zeros((EXAMPLES, LENGTH), int)
    for row, last, count in zip(chosen, tokens, labels, strict=True):
        row[rng.permutation(last)[:count]] = 1
    x = (ids, np.zeros_like(ids), chosen)
    best, _ = model_of(weights).predict(x, verbose=0)
    right = rng.random((EXAMPLES, LENGTH)) < np.linspace(0, 1, EXAMPLES)[:, None]
    labels = np.where(right, best.argmax(-1), rng.integers(5, VOCAB, (EXAMPLES, LENGTH)))
    return x, (labels[..., None], rng.integers(0, 2, (EXAMPLES, 1)))


def model_of(weights, **arguments):
    model = small_model(seq_len=None)
    model.set_weights(weights)
    arguments.setdefault("optimizer", keras.optimizers.SGD(0.0))
    arguments.setdefault("metrics", [["accuracy", Perplexity()], "accuracy"])
    return compiled(model, **arguments)


def of_all_labels(model, x, y, weights=(1.0, 1.0)):
    """The means over labels from `predict`, in plain NumPy, with one weight per example as in Keras."""
    mlm, nsp = (np.asarray(p, "float64") for p in model.predict(x, verbose=0))
    chosen, labels, pairs = x[2] == 1, y[0][..., 0], y[1][:, 0]
    mlm_losses, nsp_losses = (cross_entropy(np.log(p), true) for p, true in ((mlm, labels), (nsp, pairs)))
    mlm_weights = np.broadcast_to(np.reshape(weights[0], (-1, 1)), chosen.shape)
    found = {
        "MLM_loss": (mlm_losses * mlm_weights)[chosen].mean(),
        "NSP_loss": (nsp_losses * weights[1]).mean(),
        "MLM_accuracy": (mlm.argmax(-1) == labels)[chosen].mean(),
        "NSP_accuracy": (nsp.argmax(-1) == pairs).mean(),
        "MLM_perplexity": np.exp(mlm_losses[chosen].mean()),
    }
    return {**found, "loss": found["MLM_loss"] + found["NSP_loss"]}


def of(x, y, order):
    """Examples in some order."""
    return tuple(values[order] for values in x), tuple(values[order] for values in y)


def in_buckets(x, y, size=3):
    """The examples in batches, the short half of them padded to a shorter length."""
    long, short = np.arange(8), np.arange(8, EXAMPLES)
    plan = [(rows[i : i + size], length) for rows, length in ((long, LENGTH), (short, SHORT)) for i in range(0, len(rows), size)]
    # Keras infers from the first two batches which dimensions vary.
    plan = [plan[0], plan[-1], *plan[1:-1]]

    def batch(number):
        rows, length = plan[number]
        (ids, segments, chosen), (labels, pairs) = of(x, y, rows)
        return (ids[:, :length], segments[:, :length], chosen[:, :length]), (labels[:, :length], pairs)

    return NumberedBatches(batch, 0, len(plan))


def evaluated(model, *data, **arguments):
    return model.evaluate(*data, verbose=0, return_dict=True, **arguments)


# The default graph of any length, and options that change the step.
VARIANTS = {"all positions": {}, "gathered": {"max_predictions": 8}, "in chunks": {"max_predictions": 8, "loss_chunk": 5}}


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_evaluation_is_the_mean_over_all_labels_at_every_batch_size_in_every_order_and_in_buckets(data, weights, variant):
    model = model_of(weights, **VARIANTS[variant])
    expected = of_all_labels(model, *data)
    assert expected["MLM_loss"] > 1
    assert 0.2 < expected["MLM_accuracy"] < 0.8
    for size in (1, 3, 4, 8, 16):
        assert evaluated(model, *data, batch_size=size) == pytest.approx(expected, rel=EXACT), size
    backwards = of(*data, np.arange(EXAMPLES)[::-1])
    assert evaluated(model, *backwards, batch_size=3) == pytest.approx(expected, rel=EXACT)
    assert evaluated(model, in_buckets(*data)) == pytest.approx(expected, rel=EXACT)


@pytest.mark.slow(torch=True)
def test_training_reports_the_same_and_so_do_validation_and_single_batches(data, weights):
    model = model_of(weights, max_predictions=8)  # its rate is 0
    expected = of_all_labels(model, *data)
    history = model.fit(*data, batch_size=3, epochs=2, verbose=0, validation_data=data, validation_batch_size=4).history
    for name, value in expected.items():
        assert history[name] == pytest.approx([value] * 2, rel=EXACT)
        assert history[f"val_{name}"] == pytest.approx([value] * 2, rel=EXACT)
    first = of(*data, np.arange(5))
    expected = pytest.approx(of_all_labels(model, *first), rel=EXACT)
    assert model.test_on_batch(*first, return_dict=True) == expected
    assert model.train_on_batch(*first, return_dict=True) == expected


@pytest.mark.slow
def test_sample_weights_weight_labels_as_in_keras(data, weights, rng):
    model = model_of(weights, max_predictions=8)
    each = rng.uniform(0.1, 2, EXAMPLES), rng.uniform(0.1, 2, EXAMPLES)
    expected = of_all_labels(model, *data, each)
    for size in (3, 16):
        got = evaluated(model, *data, sample_weight=each, batch_size=size)
        assert got == pytest.approx(expected, rel=EXACT), size


@pytest.mark.slow(torch=True)
def test_weights_of_positions_are_taken_in_batches_of_any_length(data, weights, rng):
    model = model_of(weights, max_predictions=8)
    (ids, segments, chosen), (labels, pairs) = data
    each = rng.uniform(0.1, 2, (EXAMPLES, LENGTH)), np.ones(EXAMPLES)
    expected = evaluated(model, *data, sample_weight=each, batch_size=8)

    def batch(number):  # the second half has no more than six tokens
        rows, n = np.arange(8) + 8 * number, (LENGTH, SHORT)[number]
        x = tuple(values[rows, :n] for values in (ids, segments, chosen))
        return x, (labels[rows, :n], pairs[rows]), (each[0][rows, :n], each[1][rows])

    assert evaluated(model, NumberedBatches(batch, 0, 2)) == pytest.approx(expected, rel=EXACT)


@pytest.mark.slow(torch=True)
def test_loss_weights_and_regularisers_are_included(data, weights):
    model = model_of(weights, max_predictions=8, loss_weights=[0.5, 3.0])
    kernel = model.get_layer("NSP").kernel
    kernel.regularizer = keras.regularizers.L2(0.5)
    expected = of_all_labels(model, *data)
    penalty = 0.5 * float(np.square(keras.ops.convert_to_numpy(kernel)).sum())
    expected["loss"] = 0.5 * expected["MLM_loss"] + 3 * expected["NSP_loss"] + penalty
    for size in (3, 16):
        assert evaluated(model, *data, batch_size=size) == pytest.approx(expected, rel=EXACT), size


@pytest.mark.slow(torch=True)
def test_a_keras_loss_next_to_ours_has_its_own_mean(data, weights):
    model = small_model(seq_len=None)
    model.set_weights(weights)
    expected = of_all_labels(model, *data)
    keras_own = "sparse_categorical_crossentropy"
    model.compile("sgd", {"NSP": keras_own, "MLM": PretrainingLoss()}, loss_weights={"MLM": 2.0, "NSP": 1.0})
    got = evaluated(model, *data, batch_size=4)  # as many rows in each: on TensorFlow Keras counts batches
    assert got["MLM_loss"] == pytest.approx(expected["MLM_loss"], rel=EXACT)
    assert got["NSP_loss"] == pytest.approx(expected["NSP_loss"], rel=EXACT)
    assert got["loss"] == pytest.approx(2 * expected["MLM_loss"] + expected["NSP_loss"], rel=EXACT)
    model.compile("sgd", [None, PretrainingLoss()])
    assert evaluated(model, *data, batch_size=4) == pytest.approx({"loss": expected["NSP_loss"]}, rel=EXACT)
    model.compile("sgd", [PretrainingLoss(reduction="sum"), PretrainingLoss()])
    got = evaluated(model, *data, batch_size=4)
    in_a_batch = expected["MLM_loss"] * data[0][2].sum() / 4
    assert got["MLM_loss"] == pytest.approx(in_a_batch, rel=EXACT)
    assert got["loss"] == pytest.approx(in_a_batch + expected["NSP_loss"], rel=EXACT)


def test_one_head_reports_the_mean_as_its_loss(data, weights):
    x, (labels, _) = data
    whole = small_model(seq_len=None)
    whole.set_weights(weights)
    expected = of_all_labels(whole, *data)
    model = PretrainingModel(whole.inputs, whole.outputs[0])
    compiled(model, max_predictions=8)
    expected = pytest.approx([expected["MLM_loss"], expected["MLM_accuracy"]], rel=EXACT)
    for size in (3, 16):
        assert model.evaluate(x, labels, size, verbose=0) == expected, size  # by position, as in Keras


@pytest.mark.slow
def test_names_and_their_order_are_those_of_keras(data, weights):
    model = model_of(weights, max_predictions=8)
    names = ["loss", "MLM_loss", "NSP_loss", "MLM_accuracy", "MLM_perplexity", "NSP_accuracy"]
    logs = evaluated(model, *data)
    assert sorted(logs) == sorted(names)
    got = model.evaluate(*data, verbose=0)
    assert got[:3] == [logs[name] for name in names[:3]]
    of_keras = keras.Model(model.inputs, model.outputs)
    of_keras.compile("sgd", ["sparse_categorical_crossentropy"] * 2, metrics=[["accuracy", "mse"], "accuracy"])
    assert [*of_keras.evaluate(*data, verbose=0, return_dict=True)] == [
        "MLM_mse" if name == "MLM_perplexity" else name for name in logs
    ]


@pytest.mark.slow
def test_a_model_from_a_file_reports_the_same_and_its_file_holds_no_sums(data, weights, tmp_path):
    model = model_of(weights, max_predictions=8, metrics="accuracy")
    expected = evaluated(model, *data, batch_size=3)
    model.save(tmp_path / "model.keras")
    assert evaluated(keras.models.load_model(tmp_path / "model.keras"), *data, batch_size=4) == pytest.approx(expected, rel=EXACT)
    model.save_weights(tmp_path / "model.weights.h5")
    with h5py.File(tmp_path / "model.weights.h5") as file:
        names = []
        file.visit(names.append)
    assert not [name for name in names if "means" in name or "metric" in name]


@pytest.mark.slow
def test_compiling_again_leaves_nothing_of_the_old_losses(data, weights):
    model = model_of(weights, max_predictions=8)
    evaluated(model, *data)
    count = len(model.metrics)
    compiled(model, max_predictions=8, loss_weights=[0.0, 2.0], metrics=[["accuracy", Perplexity()], "accuracy"])
    logs = evaluated(model, *data, batch_size=3)
    assert len(model.metrics) == count
    assert logs["loss"] == pytest.approx(2 * logs["NSP_loss"], rel=EXACT)
    model.compile("sgd", ["sparse_categorical_crossentropy"] * 2)
    of_keras = evaluated(model, *data, batch_size=4)
    assert of_keras["loss"] == pytest.approx(of_keras["MLM_loss"] + of_keras["NSP_loss"], rel=EXACT)


@pytest.mark.slow
@pytest.mark.skipif(keras.config.backend() == "torch", reason="there Keras takes one step at a time")
def test_several_steps_in_one_call_report_the_same(data, weights):
    model = model_of(weights, max_predictions=8, steps_per_execution=4, jit_compile=True)
    expected = of_all_labels(model, *data)
    assert evaluated(model, *data, batch_size=2) == pytest.approx(expected, rel=EXACT)
    history = model.fit(*data, batch_size=2, verbose=0).history
    assert {name: values[0] for name, values in history.items()} == pytest.approx(expected, rel=EXACT)


def layer_with(loss, classes, inputs=(4,), **kwargs):
    """A model of one layer whose output the loss takes."""
    given = keras.Input(inputs)
    model = BertModel(given, keras.layers.Dense(classes)(given))
    model.compile("sgd", loss, **kwargs)
    return model


def test_labels_with_weights_and_ignored_ones_have_their_mean_and_accuracy_over_all_that_count(rng):
    x, labels = rng.normal(size=(EXAMPLES, 5, 4)), rng.integers(0, 3, (EXAMPLES, 5))
    labels[np.arange(5) >= rng.integers(1, 6, (EXAMPLES, 1))] = -100
    of_class = np.array([1.0, 2.0, 5.0])
    model = layer_with(LabelLoss(of_class), 3, (5, 4), metrics=["accuracy"])
    logits = model.predict(x, verbose=0)
    counts = labels >= 0
    losses = cross_entropy(logits, np.maximum(labels, 0))[counts]
    expected = {
        "loss": np.average(losses, weights=of_class[labels[counts]]),
        "accuracy": (logits.argmax(-1) == labels)[counts].mean(),
    }
    for size in (1, 3, 16):
        assert evaluated(model, x, labels, batch_size=size) == pytest.approx(expected, rel=EXACT), size


TASK_LOSSES = {
    "spans": (SpanLoss(), 2, (5, 4), lambda rng: rng.integers(0, 5, (EXAMPLES, 2))),
    "cosines": (CosineLoss(), 3, (4,), lambda rng: np.repeat(rng.uniform(-1, 1, EXAMPLES // 2), 2)),
    "choices": (ChoiceLoss(), 1, (4,), lambda rng: np.repeat(np.eye(2)[rng.integers(0, 2, EXAMPLES // 2)], 2, axis=0)),
}


@pytest.mark.parametrize("name", TASK_LOSSES)
def test_losses_of_rows_have_the_mean_over_all_rows(rng, name):
    loss, classes, inputs, labels_of = TASK_LOSSES[name]
    model, x, labels = layer_with(loss, classes, inputs), rng.normal(size=(EXAMPLES, *inputs)), labels_of(rng)
    expected = float(loss(labels, model.predict(x, verbose=0)))
    for size in (2, 6, 16):
        assert evaluated(model, x, labels, batch_size=size) == pytest.approx({"loss": expected}, rel=EXACT), size
