"""What `compile` determines about a step: what heads answer, what losses and metrics need; and which step a thread runs."""

import dataclasses
import threading

import keras
import numpy as np
import pytest
from helpers.small import compiled, small_batch, small_model, spread

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.models.loss_protocols import Gathers, Ignores, TakesChunks, TakesLogits
from keras_bert_rebuild.models.named_tensors import by_head, in_order
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.running_step import PREDICT, TEST, TRAIN, running, running_step
from keras_bert_rebuild.models.step_plan import LOG_PROBABILITIES, LOGITS, PROBABILITIES, HeadPlan, StepPlan, answer_of, needs_of
from keras_bert_rebuild.training.losses import Perplexity, PretrainingLoss
from keras_bert_rebuild.training.task_losses import ChoiceLoss, ConditionalRandomFieldLoss, LabelLoss, SpanLoss

pytestmark = pytest.mark.backend

HEADS = ("MLM", "NSP")


class OwnLoss(keras.losses.Loss):
    """Uses nothing of the package but an attribute of one of its protocols."""

    takes_logits = True

    def call(self, y_true, y_pred):
        return keras.ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)


class OwnGatheringLoss(OwnLoss):
    max_predictions = 4


def test_a_plan_has_the_needs_of_losses_and_metrics():
    loss = [PretrainingLoss(max_predictions=4, chunk=7), "sparse_categorical_crossentropy"]
    metrics = ([["accuracy", Perplexity()], None], [None, ["mse"]])
    assert StepPlan.from_compiled(HEADS, loss, metrics, remat=True) == StepPlan(
        heads=(HeadPlan("MLM", True, True, "log-probabilities"), HeadPlan("NSP", False, True, "probabilities")),
        max_predictions=4,
        chunk=7,
        remat=True,
    )
    teacher = StepPlan.from_compiled(HEADS, {"MLM": "categorical_crossentropy", "NSP": PretrainingLoss()})
    assert teacher.heads == (HeadPlan("MLM", False, False, None), HeadPlan("NSP", True, True, None))
    assert (teacher.max_predictions, teacher.chunk, teacher.gives_logits) == (None, None, True)


def test_a_plan_does_not_change_once_it_is_made():
    with pytest.raises(dataclasses.FrozenInstanceError):
        StepPlan().remat = True


@pytest.mark.parametrize(
    ("plan", "kinds"),
    [
        (StepPlan(), ()),
        (StepPlan(remat=True), (TRAIN,)),
        (StepPlan.from_compiled(HEADS, PretrainingLoss()), (TRAIN, TEST)),
        (StepPlan.from_compiled(HEADS, "sparse_categorical_crossentropy"), ()),
    ],
)
def test_a_plan_changes_no_prediction_and_only_requested_values(plan, kinds):
    assert tuple(kind for kind in (TRAIN, TEST, PREDICT) if plan.changes(kind)) == kinds


def test_losses_of_the_package_and_of_users_have_the_protocols():
    assert all(isinstance(PretrainingLoss(), protocol) for protocol in (TakesLogits, Gathers, TakesChunks))
    assert isinstance(OwnLoss(), TakesLogits)
    assert not isinstance(OwnLoss(), Gathers)
    assert isinstance(LabelLoss(), Ignores)
    assert not any(isinstance("mse", protocol) for protocol in (TakesLogits, Gathers, TakesChunks, Ignores))


@pytest.mark.slow
def test_a_custom_loss_gets_logits_at_the_positions_it_requests(rng):
    x, y = small_batch(rng)
    model = spread(small_model(), rng)
    losses = []
    for own in (PretrainingLoss(), OwnLoss(), OwnGatheringLoss()):
        model.compile("sgd", [own, OwnLoss()])
        losses.append(model.evaluate(x, y, verbose=0))
    assert model._plan.max_predictions == 4
    np.testing.assert_allclose(losses[1:], losses[:1] * 2, rtol=1e-5)


class Noting(PretrainingModel):
    """Records the structure of the arguments of `compute_loss`."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        self.__dict__["given"] = [[tuple(one.shape) for one in several] for several in (x, y, y_pred)]
        return super().compute_loss(x, y, y_pred, sample_weight, training)


@pytest.mark.parametrize(
    ("loss", "mlm"),
    [
        (PretrainingLoss(), (8, 12, 60)),
        (PretrainingLoss(max_predictions=4), (8, 4, 60)),
        (PretrainingLoss(max_predictions=4, chunk=5), (8, 4, 2)),
    ],
)
def test_compute_loss_of_a_subclass_gets_inputs_and_labels_unchanged(rng, loss, mlm):
    whole = small_model(transformer_num=1)
    model = Noting(whole.inputs, whole.outputs)
    model.config = whole.config
    model.compile("sgd", [loss, PretrainingLoss()])
    x, y = small_batch(rng)
    model.train_on_batch(x, y)
    assert model.given == [[(8, 12)] * 3, [(8, 12, 1), (8, 1)], [mlm, (8, 2)]]


def test_a_step_is_known_to_its_model_and_thread_only_while_it_runs():
    model, other, seen = keras.Sequential(), keras.Sequential(), []
    assert running_step(model) is None
    with running(model, TRAIN, labels=3):
        assert (running_step(model).kind, running_step(model).labels, running_step(other)) == (TRAIN, 3, None)
        with pytest.raises(KeyError), running(other, TEST):
            raise KeyError
        assert running_step(model).kind == TRAIN
        thread = threading.Thread(target=lambda: seen.append(running_step(model)))
        thread.start()
        thread.join()
    assert seen == [None]
    assert running_step(model) is None


def test_values_per_head_are_given_by_name_in_order_or_for_all():
    assert by_head(HEADS, {"NSP": 1}) == {"MLM": None, "NSP": 1}
    assert by_head(HEADS, (2, 1)) == {"MLM": 2, "NSP": 1}
    assert by_head(HEADS, "x") == {"MLM": "x", "NSP": "x"}
    assert in_order(HEADS, {"NSP": 1, "MLM": 2}) == [2, 1]
    assert in_order(("MLM",), {"MLM": 2}) == 2
    with pytest.raises(ValueError, match="expected one value for each of the outputs MLM, NSP; got 3"):
        by_head(HEADS, [1, 2, 3])


SIZES = {"vocab_size": 30, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
OF_LOGITS = [PretrainingLoss(), LabelLoss(), SpanLoss(), ChoiceLoss(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)]
OF_PROBABILITIES = [
    "sparse_categorical_crossentropy",
    keras.losses.sparse_categorical_crossentropy,
    keras.losses.SparseCategoricalCrossentropy(),
    keras.losses.BinaryCrossentropy(),
    PretrainingLoss(from_logits=False),
]


def model_of(*heads):
    return build_model(BertConfig(labels=("a", "b"), **SIZES), heads)


def test_the_layers_show_whether_a_head_gives_logits_or_probabilities():
    model = model_of("mlm", "nsp", "sop", "classification", "token_classification", "question_answering", "multiple_choice", "rtd")
    assert {head: answer_of(model, head) for head in model.output_names} == {
        "MLM": "probabilities",
        "NSP": "probabilities",
        "SOP": "probabilities",
        "Classification": "logits",
        "Token-Classification": "logits",
        "Question-Answering": "logits",
        "Multiple-Choice": "logits",
        "RTD": "logits",
    }
    pooler = model_of("pooler")
    assert answer_of(pooler, pooler.output_names[1]) is None


@pytest.mark.parametrize("loss", OF_LOGITS, ids=lambda loss: type(loss).__name__)
def test_a_loss_from_logits_does_not_fit_probabilities(loss):
    for given in (loss, [loss], {"NSP": loss}):
        with pytest.raises(
            ValueError, match=r"the loss of NSP must take probabilities, .*\(from_logits=False\); got \w+, which takes logits"
        ):
            model_of("nsp").compile(loss=given)
    model_of("classification").compile(loss=loss)


@pytest.mark.parametrize("loss", OF_PROBABILITIES, ids=range(len(OF_PROBABILITIES)))
def test_a_loss_from_probabilities_does_not_fit_logits(loss):
    with pytest.raises(
        ValueError, match=r"the loss of Classification must take logits, .*\(from_logits=True\); got \w+, which takes prob"
    ):
        model_of("classification").compile(loss=loss)
    model_of("nsp").compile(loss=loss)


def test_a_pretraining_model_gives_logits_only_to_losses_that_need_them():
    small_model().compile(loss=[PretrainingLoss(), "sparse_categorical_crossentropy"])
    with pytest.raises(ValueError, match=r"the loss of NSP must take probabilities, .*; got LabelLoss, which takes logits"):
        small_model().compile(loss=[PretrainingLoss(), LabelLoss()])


def test_only_a_random_field_takes_the_loss_of_random_fields():
    config = BertConfig(labels=("a", "b"), crf=True, **SIZES)
    build_model(config, ["token_classification"]).compile(loss=ConditionalRandomFieldLoss())
    for loss in (LabelLoss(), "sparse_categorical_crossentropy"):
        with pytest.raises(ValueError, match=r"must take the outputs of a Cond\w+, .*\(ConditionalRandomFieldLoss\); got \w+"):
            build_model(config, ["token_classification"]).compile(loss=loss)
    with pytest.raises(ValueError, match=r"must take logits, .*; got ConditionalRandomFieldLoss, which takes the outputs of"):
        model_of("token_classification").compile(loss=ConditionalRandomFieldLoss())


OTHERS = {
    "a word": "mse",
    "none": None,
    "a function": lambda y, p: keras.ops.mean(p - y, axis=-1),
    "an object": keras.losses.KLDivergence(),
}


@pytest.mark.parametrize("loss", OTHERS.values(), ids=OTHERS.keys())
def test_other_losses_are_unchanged(loss):
    model_of("classification").compile(loss=loss)
    model_of("nsp").compile(loss=loss)


def test_a_compiled_model_is_loaded_compiled(tmp_path):
    model = model_of("classification")
    model.compile(optimizer="adam", loss=LabelLoss([1.0, 2.0]))
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.loss.class_weights == [1.0, 2.0]
    assert again.optimizer.built


def test_labels_for_unknown_outputs_are_one_sentence(rng):
    x, (labels, nsp) = small_batch(rng)
    model = small_model()
    model.compile(loss=PretrainingLoss())
    with pytest.raises(ValueError, match="expected values by the names of the outputs, MLM, NSP; got tokens, next"):
        model.evaluate(x, {"tokens": labels, "next": nsp}, verbose=0)


class MetricOfLogits(keras.metrics.Mean):
    takes_logits = True


@pytest.mark.parametrize(
    ("make", "need"),
    [
        (list, None),
        (lambda: ["accuracy", None, keras.metrics.SparseCategoricalAccuracy()], None),
        (lambda: ["accuracy", Perplexity()], LOG_PROBABILITIES),
        (lambda: [MetricOfLogits(), Perplexity()], LOG_PROBABILITIES),
        (lambda: [MetricOfLogits()], LOGITS),
        (lambda: ["acc", keras.metrics.SparseTopKCategoricalAccuracy()], PROBABILITIES),
        (lambda: ["mse"], PROBABILITIES),
    ],
)
def test_the_metrics_of_a_head_declare_what_they_need(make, need):
    assert needs_of("MLM", make()) == need


def test_metrics_that_need_different_outputs_are_an_error():
    with pytest.raises(ValueError, match="metrics of MLM: expected metrics that all take logits or all take probabilities; got "):
        compiled(small_model(transformer_num=1), metrics=[[Perplexity(), "mse"], None])


def test_a_loss_in_chunks_has_no_probabilities_for_metrics():
    model = small_model(transformer_num=1)
    with pytest.raises(ValueError, match="got mse, which need the probability of every token: compile with loss_chunk=None"):
        compiled(model, loss_chunk=4, metrics={"MLM": ["accuracy", "mse"]})
    compiled(model, loss_chunk=4, metrics={"NSP": ["mse"]})
