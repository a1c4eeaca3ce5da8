"""`compile_model` on a functional model that is not a `PretrainingModel`: its heads give probabilities."""

from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.reference import logits, pretraining_loss, weights_of
from helpers.small import BLOCKS, HEADS, LENGTH, compiled, small_batch, small_model, spread

from keras_bert_rebuild import BertConfig, BertModel, build_model, compile_model, get_custom_objects
from keras_bert_rebuild.training.losses import Perplexity

pytestmark = pytest.mark.backend

GOLDEN = Path(__file__).parents[1] / "golden" / "keras_bert"


def plain(model, *heads):
    """A plain Keras model of the inputs and outputs of a model."""
    return keras.Model(model.inputs, [model.get_layer(head).output for head in heads or model.output_names])


def evaluated(model, x, y):
    return model.evaluate(x, y, verbose=0, return_dict=True)


def test_the_losses_are_those_of_the_logits(rng):
    model = spread(small_model(), rng)
    x, y = small_batch(rng)
    logs = evaluated(compile_model(plain(model), optimizer="sgd"), x, y)
    mlm, nsp = pretraining_loss(weights_of(model), x, y, HEADS, BLOCKS)
    assert (logs["MLM_loss"], logs["NSP_loss"]) == pytest.approx((mlm, nsp), abs=1e-5)
    right = logits(weights_of(model), *x[:2], HEADS, BLOCKS)[0].argmax(-1) == y[0][..., 0]
    assert logs["MLM_accuracy"] == pytest.approx(right[x[2] == 1].mean(), abs=1e-6)


def test_a_confident_and_correct_model_has_a_loss_near_zero(rng):
    # A softmax of such probabilities would give log(1 + (classes - 1) / e), 0.31 and 3.12 here.
    model = spread(small_model(), rng, scale=0.01)
    x, (labels, nsp) = small_batch(rng)
    bias = np.zeros(60)
    bias[7] = 12.0
    model.get_layer("MLM-Sim").bias.assign(bias)
    model.get_layer("NSP").bias.assign([12.0, 0.0])
    logs = evaluated(compile_model(plain(model), optimizer="sgd"), x, (np.full_like(labels, 7), np.zeros_like(nsp)))
    assert logs["MLM_loss"] < 0.002
    assert logs["NSP_loss"] < 0.002


@pytest.mark.slow
def test_training_takes_the_steps_of_the_pretraining_model(rng):
    ours, copy = spread(small_model(), rng), small_model()
    copy.set_weights(ours.get_weights())
    theirs = plain(copy)
    x, y = small_batch(rng, batch=12)
    for model in (ours, theirs):
        compile_model(model, optimizer=keras.optimizers.SGD(0.1))
        model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    assert [v.path for v in ours.weights] == [v.path for v in theirs.weights]
    for one, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Do not pass an .*argument to a layer:UserWarning")
def test_a_file_of_keras_bert_that_keras_loads_has_the_loss_of_its_own_probabilities():
    golden = np.load(GOLDEN / "golden_h5.npz")
    model = keras.models.load_model(GOLDEN / "model.h5", custom_objects=get_custom_objects(), compile=False)
    compile_model(model, optimizer="sgd")
    ids, chosen = golden["ids"], golden["msk"]
    labels, nsp = (ids * 3 + 1) % 30, np.arange(len(ids)) % 2
    logs = evaluated(model, [ids, golden["seg"], chosen], [labels[..., None], nsp[:, None]])
    of_label = np.take_along_axis(golden["mlm"], labels[..., None], axis=-1)[..., 0]
    assert logs["MLM_loss"] == pytest.approx(-np.log(of_label[chosen == 1]).mean(), abs=1e-5)
    assert logs["NSP_loss"] == pytest.approx(-np.log(golden["nsp"][np.arange(len(ids)), nsp]).mean(), abs=1e-5)


@pytest.mark.slow
def test_some_of_the_heads_train_too_also_under_other_names(rng):
    model = spread(small_model(), rng)
    x, (labels, nsp) = small_batch(rng)
    expected = evaluated(compiled(model), x, (labels, nsp))
    assert evaluated(compile_model(plain(model, "MLM"), optimizer="sgd"), x, labels)["loss"] == pytest.approx(
        expected["MLM_loss"], abs=1e-5
    )
    named = keras.Model(model.inputs, {"tokens": model.outputs[0], "next": model.outputs[1]})
    logs = evaluated(compile_model(named, optimizer="sgd"), x, {"tokens": labels, "next": nsp})
    assert logs["loss"] == pytest.approx(expected["loss"], abs=1e-5)


@pytest.mark.slow
def test_a_next_sentence_head_alone_and_a_classifier_have_the_loss_of_their_outputs(rng):
    model = spread(small_model(), rng)
    x, y = small_batch(rng)
    expected = evaluated(compiled(model), x, y)["NSP_loss"]
    alone = BertModel(model.inputs[:2], model.outputs[1])
    assert evaluated(compile_model(alone, optimizer="sgd"), x[:2], y[1])["loss"] == pytest.approx(expected, abs=1e-5)

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    classifier = spread(build_model(BertConfig(vocab_size=60, labels=("a", "b"), **sizes), ["classification"]), rng)
    answers = classifier.predict(x[:2], verbose=0).astype("float64")
    loss = np.log(np.exp(answers).sum(-1)) - answers[np.arange(8), y[1][:, 0]]
    assert evaluated(compile_model(classifier, optimizer="sgd"), x[:2], y[1])["loss"] == pytest.approx(loss.mean(), abs=1e-5)


@pytest.mark.parametrize("arguments", [{"max_predictions": 4}, {"loss_chunk": 8}, {"remat": True}])
def test_options_of_the_pretraining_model_alone_are_refused(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be None except for a Pretr.*; got {name}={value} with a Functional"):
        compile_model(plain(small_model()), **arguments)
    assert compile_model(plain(small_model()), remat=False)


def test_metrics_that_take_logits_are_refused():
    with pytest.raises(ValueError, match=r"metrics must take the model's outputs.*; got perplexity"):
        compile_model(plain(small_model()), metrics=[[Perplexity()], ["accuracy"]])


def test_a_model_with_unknown_outputs_is_refused():
    model = small_model()
    inputs = [keras.Input((LENGTH,), dtype="int32") for _ in range(3)]
    with pytest.raises(ValueError, match=r"got pretraining_model\w*, the output of a PretrainingModel: pass suitable losses"):
        compile_model(keras.Model(inputs, model(inputs)))

    class Own(keras.Model):
        """Has no graph."""

    with pytest.raises(ValueError, match="must have a functional model, whose outputs have names; got a Own"):
        compile_model(Own())
