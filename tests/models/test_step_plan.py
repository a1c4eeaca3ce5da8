"""What `compile` determines about a training step, and which step a thread is running."""

import dataclasses
import threading

import keras
import numpy as np
import pytest
from helpers.small import small_batch, small_model, spread

from keras_bert_rebuild.models.loss_protocols import Gathers, Ignores, TakesChunks, TakesLogits
from keras_bert_rebuild.models.named_tensors import by_head, in_order
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.running_step import PREDICT, TEST, TRAIN, running, running_step
from keras_bert_rebuild.models.step_plan import HeadPlan, StepPlan
from keras_bert_rebuild.training.losses import Perplexity, PretrainingLoss
from keras_bert_rebuild.training.task_losses import LabelLoss

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
    assert StepPlan.of_compiled(HEADS, loss, metrics, remat=True) == StepPlan(
        heads=(HeadPlan("MLM", True, True, "log-probabilities"), HeadPlan("NSP", False, True, "probabilities")),
        max_predictions=4,
        chunk=7,
        remat=True,
    )
    teacher = StepPlan.of_compiled(HEADS, {"MLM": "categorical_crossentropy", "NSP": PretrainingLoss()})
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
        (StepPlan.of_compiled(HEADS, PretrainingLoss()), (TRAIN, TEST)),
        (StepPlan.of_compiled(HEADS, "sparse_categorical_crossentropy"), ()),
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
