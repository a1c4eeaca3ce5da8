"""The losses of the pretraining model: from logits, at the masked positions only, within Keras's training."""

import keras
import numpy as np
import pytest
from helpers.reference import cross_entropy, logits, pretraining_loss, softmax, weights_of
from helpers.small import BLOCKS, HEADS, LENGTH, VOCAB, compiled, small_batch, small_model, spread

from keras_bert_rebuild.kernels.traits import on_host
from keras_bert_rebuild.training.losses import PretrainingLoss

pytestmark = pytest.mark.backend

GATHER = [None, 4]


def evaluated(model, x, y, **kwargs):
    return model.evaluate(x, y, verbose=0, return_dict=True, **kwargs)


@pytest.mark.parametrize("max_predictions", GATHER)
def test_losses_equal_the_reference_and_are_reported_separately(rng, max_predictions):
    model = compiled(spread(small_model(), rng), max_predictions=max_predictions)
    x, y = small_batch(rng)
    logs = evaluated(model, x, y)
    mlm, nsp = pretraining_loss(weights_of(model), x, y, HEADS, BLOCKS)
    assert logs["MLM_loss"] == pytest.approx(mlm, abs=1e-5)
    assert logs["NSP_loss"] == pytest.approx(nsp, abs=1e-5)
    assert logs["loss"] == pytest.approx(mlm + nsp, abs=1e-5)


@pytest.mark.parametrize("max_predictions", GATHER)
def test_accuracies_are_those_of_the_masked_positions(rng, max_predictions):
    model = compiled(spread(small_model(), rng), max_predictions=max_predictions)
    x, (labels, nsp_labels) = small_batch(rng)
    mlm, nsp = logits(weights_of(model), *x[:2], HEADS, BLOCKS)
    labels[:4, :, 0] = mlm.argmax(-1)[:4]
    logs = evaluated(model, x, (labels, nsp_labels))
    assert logs["MLM_accuracy"] == pytest.approx((mlm.argmax(-1) == labels[..., 0])[x[2] == 1].mean(), abs=1e-6)
    assert logs["NSP_accuracy"] == pytest.approx((nsp.argmax(-1) == nsp_labels[:, 0]).mean(), abs=1e-6)


class RecordingLoss(PretrainingLoss):
    """Stores its inputs."""

    def call(self, y_true, y_pred):
        if on_host(y_pred) is not None:  # Keras traces a step before it runs one
            self.labels, self.logits = on_host(y_true), on_host(y_pred)
        return super().call(y_true, y_pred)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("max_predictions", GATHER)
def test_the_loss_equals_that_of_the_logits_even_at_40(rng, max_predictions, policy):
    keras.config.set_dtype_policy(policy)
    model = spread(small_model(), rng, scale=0.05)
    x, (labels, nsp_labels) = small_batch(rng)
    bias = np.zeros(VOCAB)
    bias[3] = 40.0
    model.get_layer("MLM-Sim").bias.assign(bias)
    model.get_layer("NSP").bias.assign([40.0, 0.0])
    nsp_labels[:] = 1
    mlm, nsp = RecordingLoss(max_predictions=max_predictions), RecordingLoss()
    model.compile(optimizer="sgd", loss=[mlm, nsp], run_eagerly=True)
    logs = evaluated(model, x, (labels, nsp_labels))
    # Every example has three labelled positions; where they are gathered they come first.
    valid = x[2] == 1 if max_predictions is None else np.arange(max_predictions)[None] < np.full((8, 1), 3)
    if max_predictions is None:
        np.testing.assert_array_equal(mlm.labels, labels[..., 0])
    assert logs["MLM_loss"] > 35
    assert logs["NSP_loss"] > 35
    assert logs["MLM_loss"] == pytest.approx(cross_entropy(mlm.logits, mlm.labels.astype(int))[valid].mean(), abs=1e-5)
    assert logs["NSP_loss"] == pytest.approx(cross_entropy(nsp.logits, nsp.labels.astype(int)).mean(), abs=1e-5)
    # And the probabilities of `predict` are those of the same logits.
    probabilities = model.predict(x, verbose=0)[0]
    if max_predictions is None:
        np.testing.assert_allclose(softmax(mlm.logits.astype("float64")), probabilities, atol=2e-6 if policy == "float32" else 1e-2)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_probabilities_are_float32_and_sum_to_one(rng, policy):
    if policy == "mixed_float16" and keras.backend.backend() == "jax":
        policy = "mixed_bfloat16"  # JAX compiles no float16 attention for processors
    keras.config.set_dtype_policy(policy)
    x, _ = small_batch(rng)
    for output in small_model().predict(x, verbose=0):
        assert output.dtype == np.float32
        np.testing.assert_allclose(output.sum(-1), 1, atol=1e-5)


@pytest.mark.slow
def test_gathered_training_equals_full_training(rng):
    a, b = compiled(small_model()), compiled(small_model(), max_predictions=4)
    b.set_weights(a.get_weights())
    x, y = small_batch(rng, batch=16)
    fit = lambda model: model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0).history  # noqa: E731
    for (name, full), gathered in zip(fit(a).items(), fit(b).values(), strict=True):
        np.testing.assert_allclose(full, gathered, rtol=1e-4, atol=1e-6, err_msg=name)
    for v, w in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_allclose(v, w, atol=1e-5)


@pytest.mark.slow
def test_training_on_one_batch_learns_it(rng):
    model = compiled(small_model(), max_predictions=4, optimizer=keras.optimizers.Adam(0.01))
    x, y = small_batch(rng)
    history = model.fit(x, y, batch_size=8, epochs=80, verbose=0).history
    assert history["MLM_loss"][-1] < 0.2
    assert history["MLM_accuracy"][-1] == 1.0


@pytest.mark.parametrize("max_predictions", GATHER)
@pytest.mark.parametrize("shape", ["example", "token"])
def test_sample_weights_count_as_keras_counts_them(rng, max_predictions, shape):
    model = compiled(spread(small_model(), rng), max_predictions=max_predictions)
    x, y = small_batch(rng)
    weights = rng.uniform(0, 2, (8, LENGTH) if shape == "token" else (8,))
    nsp_weights = rng.uniform(0, 2, 8)
    logs = evaluated(model, x, y, sample_weight=(weights, nsp_weights))
    mlm, nsp = logits(weights_of(model), *x[:2], HEADS, BLOCKS)
    valid = x[2] == 1
    each = np.broadcast_to(weights[:, None] if shape == "example" else weights, valid.shape)
    # The mean over the labelled positions of weight times loss.
    assert logs["MLM_loss"] == pytest.approx((cross_entropy(mlm, y[0][..., 0]) * each)[valid].sum() / valid.sum(), abs=1e-5)
    assert logs["NSP_loss"] == pytest.approx((cross_entropy(nsp, y[1][:, 0]) * nsp_weights).mean(), abs=1e-5)


def test_class_weight_says_that_it_is_for_single_outputs(rng):
    x, y = small_batch(rng)
    with pytest.raises(ValueError, match="class_weight"):
        compiled(small_model()).fit(x, y, class_weight={0: 1.0, 1: 2.0}, verbose=0)


@pytest.mark.parametrize("max_predictions", GATHER)
def test_loss_weights_scale_the_heads(rng, max_predictions):
    model = compiled(spread(small_model(), rng), max_predictions=max_predictions, loss_weights=[0.5, 3.0])
    logs = evaluated(model, *small_batch(rng))
    assert logs["loss"] == pytest.approx(0.5 * logs["MLM_loss"] + 3.0 * logs["NSP_loss"], rel=1e-5)


@pytest.mark.parametrize("max_predictions", GATHER)
def test_regularisers_are_added(rng, max_predictions):
    model = small_model()
    layer = model.get_layer("NSP")
    layer.kernel.regularizer = keras.regularizers.L2(0.5)
    logs = evaluated(compiled(model, max_predictions=max_predictions), *small_batch(rng))
    penalty = 0.5 * float(np.square(numpy(layer.kernel)).sum())
    assert logs["loss"] == pytest.approx(logs["MLM_loss"] + logs["NSP_loss"] + penalty, rel=1e-5)


@pytest.mark.parametrize("max_predictions", GATHER)
def test_a_users_metric_sees_probabilities_at_the_masked_positions(rng, max_predictions):
    metrics = {"MLM": [keras.metrics.SparseCategoricalCrossentropy(name="nats")], "NSP": ["accuracy"]}
    model = compiled(spread(small_model(), rng), max_predictions=max_predictions, metrics=metrics)
    logs = evaluated(model, *small_batch(rng))
    assert logs["MLM_nats"] == pytest.approx(logs["MLM_loss"], abs=1e-4)


@pytest.mark.parametrize("max_predictions", GATHER)
def test_validation_data_is_evaluated_in_the_same_way(rng, max_predictions):
    model = compiled(small_model(), max_predictions=max_predictions)
    x, y = small_batch(rng)
    held_out = small_batch(rng)
    history = model.fit(x, y, validation_data=held_out, verbose=0).history
    assert history["val_loss"][0] == pytest.approx(evaluated(model, *held_out)["loss"], rel=1e-5)


@pytest.mark.slow
def test_labels_and_losses_may_be_dictionaries(rng):
    x, y = small_batch(rng)
    model = spread(small_model(), rng)
    expected = evaluated(compiled(model, max_predictions=4), x, y)
    loss = {"MLM": PretrainingLoss(max_predictions=4), "NSP": PretrainingLoss()}
    model.compile(optimizer="sgd", loss=loss)
    named = dict(zip(("Input-Token", "Input-Segment", "Input-Masked"), x, strict=True))
    weights = {"MLM": np.ones(8), "NSP": np.ones(8)}
    for labels in (dict(zip(("MLM", "NSP"), y, strict=True)), y):
        assert evaluated(model, named, labels)["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    got = evaluated(model, named, dict(zip(("MLM", "NSP"), y, strict=True)), sample_weight=weights)
    assert got["loss"] == pytest.approx(expected["loss"], rel=1e-6)


@pytest.mark.slow
def test_a_custom_loss_gets_probabilities_of_every_position(rng):
    x, y = small_batch(rng)
    model = spread(small_model(), rng)
    expected = evaluated(compiled(model), x, y)
    model.compile(optimizer="sgd", loss=["sparse_categorical_crossentropy"] * 2)
    assert evaluated(model, x, y)["loss"] == pytest.approx(expected["loss"], abs=1e-4)
    model.compile(optimizer="sgd", loss=[PretrainingLoss(max_predictions=4), "sparse_categorical_crossentropy"])
    assert evaluated(model, x, y)["loss"] == pytest.approx(expected["loss"], abs=1e-4)
    model.compile(optimizer="sgd", loss=["sparse_categorical_crossentropy", PretrainingLoss()])
    assert evaluated(model, x, y)["loss"] == pytest.approx(expected["loss"], abs=1e-4)


def test_a_loss_computed_by_hand_from_predictions_is_the_same(rng):
    x, y = small_batch(rng)
    model = compiled(spread(small_model(), rng))
    tensors = [keras.ops.convert_to_tensor(value) for value in x]
    by_hand = float(numpy(model.compute_loss(tensors, [keras.ops.convert_to_tensor(v) for v in y], model(tensors))))
    assert by_hand == pytest.approx(evaluated(model, x, y)["loss"], abs=1e-4)


def test_values_without_a_label_do_not_matter(rng):
    x, (labels, nsp) = small_batch(rng)
    model = compiled(spread(small_model(), rng), max_predictions=4)
    expected = evaluated(model, x, (labels, nsp))
    ignored = np.where(x[2][..., None] == 1, labels, -100)
    assert evaluated(model, x, (ignored, nsp)) == expected


@pytest.mark.slow
def test_labels_may_have_two_axes(rng):
    x, (labels, nsp) = small_batch(rng)
    model = compiled(spread(small_model(), rng), max_predictions=4)
    assert evaluated(model, x, (labels[..., 0], nsp[:, 0])) == evaluated(model, x, (labels, nsp))


@pytest.mark.slow
def test_more_slots_than_positions_are_no_error(rng):
    x, y = small_batch(rng)
    model = spread(small_model(), rng)
    expected = evaluated(compiled(model), x, y)["loss"]
    assert evaluated(compiled(model, max_predictions=LENGTH + 50), x, y)["loss"] == pytest.approx(expected, rel=1e-6)


def test_more_masked_positions_than_slots_are_an_error_before_the_step(rng):
    x, y = small_batch(rng, masked=5)
    with pytest.raises(ValueError, match=r"at most max_predictions=4 positions to predict per example; got 5 at \[0\]"):
        compiled(small_model(), max_predictions=4).fit(x, y, verbose=0)


def test_more_masked_positions_than_slots_are_nan_inside_a_step(rng):
    x, y = small_batch(rng, masked=5)
    model = compiled(small_model(), max_predictions=4)
    model._check_batch = lambda batch: batch  # as without the host check
    assert np.isnan(evaluated(model, x, y)["MLM_loss"])


def test_a_batch_without_anything_to_predict_gives_zero(rng):
    (ids, segments, chosen), y = small_batch(rng)
    for max_predictions in GATHER:
        logs = evaluated(compiled(small_model(), max_predictions=max_predictions), (ids, segments, chosen * 0), y)
        assert logs["MLM_loss"] == 0.0
        assert np.isfinite(logs["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"use_task_embed": True, "task_num": 3}, {"padding_mask": True}, {"seq_len": None}])
def test_further_inputs_train_too(rng, arguments):
    (ids, segments, chosen), y = small_batch(rng)
    inputs = [ids, segments, chosen]
    if "task_num" in arguments:
        inputs.insert(2, np.ones((8, 1), int))
    if "padding_mask" in arguments:
        inputs.append((ids != 0).astype(int))
    full, gathered = compiled(small_model(**arguments)), compiled(small_model(**arguments), max_predictions=4)
    gathered.set_weights(full.get_weights())
    a, b = (model.fit(tuple(inputs), y, verbose=0).history["loss"][0] for model in (full, gathered))
    assert a == pytest.approx(b, rel=1e-5)


@pytest.mark.slow
def test_a_pretraining_model_inside_another_gives_probabilities(rng):
    x, y = small_batch(rng)
    inner = compiled(spread(small_model(), rng), max_predictions=4)
    inputs = [keras.Input((LENGTH,), dtype="int32") for _ in range(3)]
    outer = keras.Model(inputs, inner(inputs))
    outer.compile(optimizer="sgd", loss=["sparse_categorical_crossentropy"] * 2)
    assert np.isfinite(outer.fit(x, y, verbose=0).history["loss"][0])
    assert inner.predict(x, verbose=0)[0].shape == (8, LENGTH, VOCAB)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.mark.parametrize("heads", [("MLM", "NSP"), ("MLM",), ("NSP",)])
@pytest.mark.slow
def test_a_custom_loss_gets_labels_that_are_not_ids(rng, heads):
    x, y = small_batch(rng)
    model = spread(small_model(), rng)
    expected = evaluated(compiled(model), x, y)["loss"]
    as_ids = dict(zip(("MLM", "NSP"), y, strict=True))
    teachers = {"MLM": np.eye(VOCAB)[as_ids["MLM"][..., 0]], "NSP": np.eye(2)[as_ids["NSP"][:, 0]]}
    other = small_model()
    other.set_weights(model.get_weights())
    other.compile(
        optimizer="sgd",
        loss={head: "categorical_crossentropy" if head in heads else PretrainingLoss() for head in ("MLM", "NSP")},
    )
    labels = [teachers[head] if head in heads else as_ids[head] for head in ("MLM", "NSP")]
    assert evaluated(other, x, labels)["loss"] == pytest.approx(expected, abs=1e-4)


def test_labels_that_are_too_few_for_a_loss_of_ids_are_refused(rng):
    x, (labels, nsp) = small_batch(rng)
    with pytest.raises(ValueError, match=r"labels of MLM: expected an id for every position, \(8, 12\); got shape \(8, 1, 1\)"):
        evaluated(compiled(small_model()), x, (labels[:, :1], nsp))


def test_weights_of_classes_are_refused_where_labels_are_tokens(rng):
    x, y = small_batch(rng)
    model = compiled(small_model())
    for train in (model.fit, model.train_on_batch):
        with pytest.raises(
            ValueError, match=r"class_weight must be None for labels that are tokens, such as those of MLM; got \{0: 2.0\}"
        ):
            train(x, y, class_weight={0: 2.0})
