"""A student learns from text and from a frozen teacher: the numbers of a step, from both models apart, and what is not trained."""

import keras
import numpy as np
import pytest
from helpers.reference import cross_entropy
from helpers.small import spread
from helpers.tiny_families import modules, name_of_module, tiny_config
from keras import ops

from keras_bert_rebuild import attention_maps, build_model, compile_model
from keras_bert_rebuild.models.distillation_model import build_distillation_model
from keras_bert_rebuild.models.distillation_objectives import AttentionRelations, HiddenStates, SoftTargets
from keras_bert_rebuild.training.state.train_state import read_state

# Two models with every layer of a block.
pytestmark = [pytest.mark.backend, pytest.mark.slow]

LENGTH, PADDING = 10, 3
MODULES = {name_of_module(module): module for module in modules()}
FAMILIES = [name for name in MODULES if name != "xlnet" and "mlm" in tiny_config(MODULES[name]).encoder().heads]


def tiny(name="bert", **changes):
    return tiny_config(MODULES[name], **{"num_hidden_layers": 2, **changes})


def objectives(hidden=((2, 1), (0, 0)), measure="mse", heads=4, **changes):
    return [
        SoftTargets(weight=5.0, temperature=2.0),
        HiddenStates(weight=0.5, layers=hidden, measure=measure),
        AttentionRelations(weight=3.0, layers=((2, 1),), heads=heads, **changes),
    ]


def pair(rng, name="bert", given=None, packed=False, **changes):
    """A distillation of a teacher of two blocks of 16 to a student of one block of 8, with random weights."""
    config = tiny(name)
    narrow = {"num_hidden_layers": 1, "hidden_size": 8, "embedding_size": None, **changes}
    teacher, student = (spread(build_model(c, ["mlm"], packed=packed), rng) for c in (config, config.replace(**narrow)))
    model = build_distillation_model(student, teacher, objectives() if given is None else given, mlm_weight=2.0)
    for layer in model.projections.values():
        layer.kernel.assign(rng.normal(size=layer.kernel.shape))
        layer.bias.assign(rng.normal(size=layer.bias.shape))
    return model


def batch(rng, model, rows=4):
    """Inputs and labels; the last positions are padding, and one of them claims to be chosen."""
    config = model.config
    labels = rng.integers(5, config.vocab_size, (rows, LENGTH))
    labels[:, -PADDING:] = config.pad_token_id
    chosen = np.zeros((rows, LENGTH), int)
    chosen[:, [1, 4, LENGTH - 1]] = 1
    chosen[0, 2] = 1
    tokens = np.where((chosen == 1) & (labels != config.pad_token_id), 4, labels)
    named = {"Input-Token": tokens, "Input-Segment": np.zeros_like(tokens), "Input-Masked": chosen}
    return [named[tensor.name].astype("int32") for tensor in model.inputs], labels[..., None].astype("int32")


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def relations(vectors, heads, real):
    """`(batch, heads, length, length)` from vectors of attention heads `(batch, heads, length, head width)`."""
    batch, _, length, _ = vectors.shape
    joined = vectors.transpose(0, 2, 1, 3).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3).astype("float64")
    scores = joined @ joined.transpose(0, 1, 3, 2) / np.sqrt(joined.shape[-1])
    return log_softmax(np.where(real[:, None, None, :], scores, -1e30))


def reference(model, x, labels):
    """The numbers of a step from separate calls of both models and their attention maps, in NumPy."""
    named = dict(zip((tensor.name for tensor in model.inputs), x, strict=True))
    real = named["Input-Token"] != model.config.pad_token_id
    at = (named["Input-Masked"] != 0) & real
    probabilities = [ops.convert_to_numpy(part(x)).astype("float64") for part in (model.teacher, model.student)]
    theirs, mine = (np.log(p[at]) for p in probabilities)
    softened = [log_softmax(logits / 2.0) for logits in (theirs, mine)]
    teacher, student = (attention_maps(part, x, vectors=True) for part in (model.teacher, model.student))
    kernel, bias = (ops.convert_to_numpy(weight) for weight in model.projections["Hidden"].weights)
    layers = ((teacher.outputs[1], student.outputs[0]), (teacher.inputs[0], student.inputs[0]))
    differences = [((one - (other @ kernel + bias)) ** 2).mean(-1) for one, other in layers]
    relation = 0.0
    for name in ("queries", "keys", "values"):
        one, other = (relations(getattr(maps, name)[-1], 4, real) for maps in (teacher, student))
        relation = relation + (np.exp(one) * (one - other)).sum(-1).mean(1)
    found = {
        "MLM_loss": cross_entropy(mine, labels[..., 0][at]).mean(),
        "Soft_loss": 4.0 * (np.exp(softened[0]) * (softened[0] - softened[1])).sum(-1).mean(),
        "Hidden_loss": np.mean(differences, 0)[real].mean(),
        "Relation_loss": relation[real].mean(),
    }
    weights = dict(zip(found, (2.0, 5.0, 0.5, 3.0), strict=True))
    return {**found, "loss": sum(weights[name] * value for name, value in found.items())}


@pytest.mark.parametrize("settings", [{"max_predictions": 4}, {}, {"max_predictions": 4, "loss_chunk": 3}])
def test_losses_are_those_of_both_models_apart(rng, settings):
    model = compile_model(pair(rng), **settings)
    x, labels = batch(rng, model)
    got = model.evaluate(x, labels, batch_size=2, verbose=0, return_dict=True)
    for name, expected in reference(model, x, labels).items():
        assert got[name] == pytest.approx(expected, rel=2e-4), name


def gradients(model, x, labels, **settings):
    """The change of every weight in a step of rate 1, by its path."""
    before = {weight.path: ops.convert_to_numpy(weight).copy() for weight in model.weights}
    compile_model(model, optimizer=keras.optimizers.SGD(1.0), **settings)
    model.train_on_batch(x, labels)
    changes = {weight.path: before[weight.path] - ops.convert_to_numpy(weight) for weight in model.weights}
    for weight in model.weights:
        weight.assign(before[weight.path])
    return changes


@pytest.mark.slow(torch=True)
def test_chunks_and_rematerialisation_change_no_gradient(rng):
    model = pair(rng)
    x, labels = batch(rng, model)
    plain = gradients(model, x, labels, max_predictions=4)
    assert sum(np.abs(change).max() > 1e-6 for change in plain.values()) >= len(plain) - 2  # biases of keys cancel, in part
    for settings in ({"loss_chunk": 3}, {"remat": True}):
        other = gradients(model, x, labels, max_predictions=4, **settings)
        for path, change in plain.items():
            np.testing.assert_allclose(other[path], change, atol=2e-5 + 1e-4 * np.abs(change).max(), err_msg=path)


def test_the_teacher_is_neither_trained_nor_counted_nor_saved(rng):
    model = pair(rng)
    before = [ops.convert_to_numpy(weight).copy() for weight in model.teacher.weights]
    compile_model(model, optimizer=keras.optimizers.Adam(0.1), max_predictions=4)
    model.fit(*batch(rng, model), batch_size=2, verbose=0)
    for weight, value in zip(model.teacher.weights, before, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(weight), value)
    projection = 8 * 16 + 16
    assert model.count_params() == model.student.count_params() + projection == model.config.num_params(["mlm"]) + projection
    weights = [name for name in read_state(model) if name.startswith("weights/")]
    assert len(weights) == len(model.student.weights) + 2
    assert "weights/Distillation-Projection/kernel" in weights


@pytest.mark.parametrize(
    "name", ["bert", *(pytest.param(name, marks=pytest.mark.slow(torch=True)) for name in FAMILIES if name != "bert")]
)
def test_a_student_equal_to_its_teacher_is_at_the_minimum_of_every_objective(rng, name):
    config = tiny(name)
    teacher, student = (build_model(config, ["mlm"]) for _ in range(2))
    spread(teacher, rng)
    for mine, theirs in zip(student.weights, teacher.weights, strict=True):
        mine.assign(ops.convert_to_numpy(theirs))
    given = objectives(hidden=((2, 2), (1, 1), (0, 0)), measure="cosine")
    given[2] = AttentionRelations(layers=((2, 2), (1, 1)), heads=8)
    model = build_distillation_model(student, teacher, given, mlm_weight=0.0)
    compile_model(model, optimizer=keras.optimizers.SGD(1.0), max_predictions=4)
    x, labels = batch(rng, model)
    got = model.evaluate(x, labels, verbose=0, return_dict=True)
    for kind in ("Soft", "Hidden", "Relation"):
        assert got[f"{kind}_loss"] == pytest.approx(0, abs=1e-5), kind
    assert got["MLM_loss"] > 1


def test_tokens_of_a_packed_row_learn_what_they_learn_alone(rng):
    """Two texts in a row have the losses of the texts in rows of their own."""
    model = pair(rng, packed=True)
    compile_model(model, max_predictions=LENGTH)
    tokens, chosen = rng.integers(5, model.config.vocab_size, (2, 5)), np.array([[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]])

    def losses(rows, numbers):
        ids, predicted = (given.reshape(rows, -1) for given in (tokens, chosen))
        named = {"Input-Token": np.where(predicted == 1, 4, ids), "Input-Segment": 0 * ids, "Input-Masked": predicted}
        x = [{**named, "Input-Mask": np.array(numbers)}[tensor.name].astype("int32") for tensor in model.inputs]
        return model.evaluate(x, ids[..., None].astype("int32"), verbose=0, return_dict=True)

    packed, apart = losses(1, [[1] * 5 + [6] * 5]), losses(2, [[1] * 5] * 2)
    for name, value in apart.items():
        assert packed[name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "one or more objectives, one of each kind; got none"),
        ([SoftTargets(), SoftTargets()], "one of each kind; got Soft, Soft"),
        ([HiddenStates(layers=((3, 1),))], "hidden states must be from 0 to 2 in the teacher; got 3:1"),
        ([HiddenStates(layers=())], "hidden states must have at least one pair, .*got none"),
        ([AttentionRelations(layers=((2, 0),), heads=2)], "attention relations must be from 1 to 1 in the student; got 2:0"),
        ([AttentionRelations(layers=((2, 1),), heads=16)], "relation heads must divide the width of the student, 8; got 16"),
        ([AttentionRelations(layers=((2, 1),), heads=3)], "relation heads must divide the width of the teacher, 16; got 3"),
    ],
)
def test_what_does_not_fit_is_refused(rng, given, message):
    with pytest.raises(ValueError, match=message):
        pair(rng, given=given)


def test_teachers_that_do_not_fit_are_refused(rng):
    student = build_model(tiny(), ["mlm"])
    headless, larger = build_model(tiny()), build_model(tiny(vocab_size=tiny().vocab_size + 1), ["mlm"])
    with pytest.raises(
        ValueError, match="soft targets need a teacher with an MLM head; got the outputs Encoder-2-FeedForward-Norm"
    ):
        build_distillation_model(student, headless, [SoftTargets()])
    with pytest.raises(ValueError, match="must have the same vocabulary; got"):
        build_distillation_model(student, larger, [SoftTargets()])
    streams = build_model(tiny("xlnet"), ["mlm"])
    with pytest.raises(ValueError, match="got a two-stream model"):
        build_distillation_model(streams, streams, [SoftTargets()])
    with pytest.raises(
        ValueError, match=r"must have the same inputs; got \['Input-Token'\] and \['Input-Segment', 'Input-Token'\]"
    ):
        build_distillation_model(student, build_model(tiny("modernbert"), ["mlm"]), [SoftTargets()])
    with pytest.raises(ValueError, match="a student must have only the head mlm; got the outputs MLM, NSP"):
        build_distillation_model(build_model(tiny(), ["mlm", "nsp"]), headless, [SoftTargets()])


def test_a_teacher_without_a_head_teaches_hidden_states_and_relations(rng):
    teacher = spread(build_model(tiny()), rng)
    model = build_distillation_model(build_model(tiny(), ["mlm"]), teacher, objectives(hidden=((1, 1),))[1:])
    compile_model(model, max_predictions=4)
    got = model.evaluate(*batch(rng, model), verbose=0, return_dict=True)
    assert set(got) == {"loss", "MLM_loss", "MLM_accuracy", "Hidden_loss", "Relation_loss"}
    assert got["Hidden_loss"] > 0
