"""The inputs of losses and metrics; `compile` refuses a loss that would treat logits as probabilities, or the reverse."""

import keras
import pytest
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.models.step_plan import LOG_PROBABILITIES, LOGITS, PROBABILITIES, answer_of, needs_of
from keras_bert_rebuild.training.losses import Perplexity, PretrainingLoss
from keras_bert_rebuild.training.task_losses import ChoiceLoss, ConditionalRandomFieldLoss, LabelLoss, SpanLoss

pytestmark = pytest.mark.backend

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


class TakesLogits(keras.metrics.Mean):
    takes_logits = True


@pytest.mark.parametrize(
    ("make", "need"),
    [
        (list, None),
        (lambda: ["accuracy", None, keras.metrics.SparseCategoricalAccuracy()], None),
        (lambda: ["accuracy", Perplexity()], LOG_PROBABILITIES),
        (lambda: [TakesLogits(), Perplexity()], LOG_PROBABILITIES),
        (lambda: [TakesLogits()], LOGITS),
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
