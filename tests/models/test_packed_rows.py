"""Rows of several sequences have the loss and the gradients of the sequences apart, and heads on pairs an output per sequence."""

import keras
import numpy as np
import pytest
from helpers.small import ROWS, laid_out, sequences, spread, step
from helpers.tiny_families import modules, name_of_module, tiny_config
from keras import ops

from keras_bert_rebuild import add_lora, attention_maps, build_model, compile_model
from keras_bert_rebuild.layers import PositionEmbedding
from keras_bert_rebuild.layers.masks import most_sequences
from keras_bert_rebuild.models.replaced_token_model import build_replaced_token_model
from keras_bert_rebuild.pretrained.vocabulary_surgery import resize_vocabulary
from keras_bert_rebuild.training.lora import without_lora

pytestmark = [pytest.mark.backend, pytest.mark.slow]

MODULES = {name_of_module(module): module for module in modules()}


def tiny(name, **changes):
    """A tiny config of a family, without convolution."""
    config = tiny_config(MODULES[name])
    return config.replace(**({"conv_kernel_size": 0} if hasattr(config, "conv_kernel_size") else {}), **changes)


def same_step(packed, plain, config, rng, **settings):
    """Compare a step on packed rows with one on the sequences apart."""
    spread(plain, rng, 0.2)
    for weight, other in zip(packed.weights, plain.weights, strict=True):
        weight.assign(ops.convert_to_numpy(other))
    given = sequences(rng, config)
    lengths = [(length,) for row in ROWS for length in row]
    apart = step(plain, *laid_out(config, given, lengths), max_predictions=6, **settings)
    together = step(packed, *laid_out(config, given, ROWS), max_predictions=6, **settings)
    np.testing.assert_allclose(together[0], apart[0], rtol=1e-5)
    for path, gradient in apart[1].items():
        np.testing.assert_allclose(together[1][path], gradient, atol=1e-5, err_msg=path)
    assert max(abs(gradient).max() for gradient in apart[1].values()) > 0.01


@pytest.mark.parametrize("name", MODULES)
def test_a_step_equals_that_of_the_sequences_apart(name, rng):
    config = tiny(name)
    same_step(build_model(config, ["mlm"], packed=True), build_model(config, ["mlm"]), config, rng)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_a_rematerialised_step_equals_that_of_the_sequences_apart(name, rng):
    config = tiny(name)
    same_step(build_model(config, ["mlm"], packed=True), build_model(config, ["mlm"]), config, rng, remat=True)


@pytest.mark.parametrize("remat", [False, True])
def test_generator_and_discriminator_see_one_sequence_each(remat, rng):
    config = tiny("electra")
    generator = config.replace(num_hidden_layers=1)
    models = [build_replaced_token_model(config, generator, 5.0, packed=packed) for packed in (True, False)]
    same_step(*models, config, rng, remat=remat)


def test_numbers_that_are_none_of_a_sequence_are_refused(rng):
    config = tiny("bert")
    model = build_model(config, ["mlm"], packed=True)
    inputs, _ = laid_out(config, sequences(rng, config), ROWS)
    for wrong in (9, -1, 4):
        numbers = inputs["Input-Mask"].copy()
        numbers[2, 6] = wrong
        given = [{**inputs, "Input-Mask": numbers}[tensor.name] for tensor in model.inputs]
        with pytest.raises(ValueError, match=rf"1 \+ the column .* got {wrong} at \[2, 6\]\."):
            model.predict(given, verbose=0)


@pytest.mark.parametrize("heads", [["mlm", "pooler"], ["pooler"], ["classification"]])
def test_heads_of_other_tasks_are_refused(heads):
    with pytest.raises(ValueError, match=r"packed rows must have the heads of pretraining, mlm, .*; got (pooler|classification)\."):
        build_model(tiny("bert", labels=("a", "b")), heads, packed=True)


def test_blocks_with_convolution_are_refused():
    config = tiny_config(MODULES["deberta_v2"], conv_kernel_size=3)
    with pytest.raises(ValueError, match="without convolution"):
        build_model(config, ["mlm"], packed=True)


def test_a_packed_model_stays_one_when_its_vocabulary_changes(rng):
    model = spread(build_model(tiny("bert"), ["mlm"], packed=True), rng)
    tokens = {f"t{i}": i for i in range(tiny("bert").vocab_size)}
    larger, _ = resize_vocabulary(model, tokens, len(tokens) + 3)
    inputs, _ = laid_out(tiny("bert"), sequences(rng, tiny("bert")), ROWS)
    given = [inputs[tensor.name] for tensor in model.inputs]
    found, expected = (ops.convert_to_numpy(each(given))[..., : len(tokens)] for each in (larger, model))
    np.testing.assert_allclose(found / found.sum(-1, keepdims=True), expected, atol=1e-5)


def test_a_packed_model_stays_one_when_low_rank_matrices_are_merged(rng):
    model = spread(build_model(tiny("bert"), ["mlm"], packed=True), rng)
    add_lora(model, 2)
    inputs, _ = laid_out(tiny("bert"), sequences(rng, tiny("bert")), ROWS)
    given = [inputs[tensor.name] for tensor in model.inputs]
    np.testing.assert_allclose(*(ops.convert_to_numpy(each(given)) for each in (without_lora(model), model)), atol=1e-5)


def test_attention_of_packed_rows_is_not_shown(rng):
    model = build_model(tiny("bert"), ["mlm"], packed=True)
    inputs, _ = laid_out(tiny("bert"), sequences(rng, tiny("bert")), ROWS)
    with pytest.raises(ValueError, match=r"model must take one sequence per row; .* was built with packed=True"):
        attention_maps(model, [inputs[tensor.name] for tensor in model.inputs])


def test_the_gradient_of_a_position_is_summed_in_float32():
    """In bfloat16 a sum of equal numbers stops growing at 256 of them."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    inputs, numbers = keras.Input((16, 4)), keras.Input((16,), dtype="int32")
    layer = PositionEmbedding(16, 4, mode="add")
    outputs = layer(inputs, mask=numbers)
    model = keras.Model([inputs, numbers], ops.sum(ops.cast(outputs, "float32"), axis=(1, 2))[:, None])
    model.compile(keras.optimizers.SGD(1.0), lambda labels, outputs: outputs)
    before = layer.get_weights()[0]
    each_its_own = np.broadcast_to(np.arange(1, 17, dtype="int32"), (64, 16))  # all 1,024 tokens are first ones
    model.train_on_batch([np.zeros((64, 16, 4), "float32"), each_its_own], np.zeros((64, 1)))
    np.testing.assert_allclose(before - layer.get_weights()[0], 16 * (np.arange(16) == 0)[:, None] * np.ones(4), atol=1e-5)


# Rows for up to four sequences.
WIDTH = 32
# XLNet's heads on pairs read the last token of a row.
WITH_PAIRS = [name for name in MODULES if name != "xlnet"]


def pair(head="nsp", name="bert", **changes):
    """A packed model and one for rows of one pair, with the same weights, and their config."""
    config = tiny_config(MODULES[name], **changes)
    config = config.replace(conv_kernel_size=0) if hasattr(config, "conv_kernel_size") else config
    models = [build_model(config, ["mlm", head], packed=packed) for packed in (True, False)]
    spread(models[0], np.random.default_rng(1), 0.2)
    for weight, other in zip(models[1].weights, models[0].weights, strict=True):
        weight.assign(ops.convert_to_numpy(other))
    return *models, config


def of_rows(labels, counts):
    """Labels of all sequences as `(rows, slots)`."""
    rows, left = np.zeros((len(counts), most_sequences(WIDTH)), "int32"), iter(labels)
    for row, count in enumerate(counts):
        rows[row, :count] = [next(left) for _ in range(count)]
    return rows


def batches(config, rng):
    """The same pairs packed and apart: inputs by name, and labels of both heads."""
    given = sequences(rng, config)
    classes = rng.integers(0, 2, len(given))
    packed, labels = laid_out(config, given, ROWS, WIDTH)
    apart, labels_apart = laid_out(config, given, [(length,) for row in ROWS for length in row], WIDTH)
    return (packed, [labels, of_rows(classes, [len(row) for row in ROWS])]), (apart, [labels_apart, classes[:, None]])


def of(model, inputs):
    return tuple(inputs[tensor.name] for tensor in model.inputs)


@pytest.mark.parametrize(("name", "head"), [*((name, "nsp") for name in WITH_PAIRS), ("albert", "sop")])
def test_a_step_equals_that_of_the_pairs_apart(name, head, rng):
    packed, plain, config = pair(head, name)
    check_same_step(packed, plain, *batches(config, rng))


@pytest.mark.parametrize("settings", [{"remat": True}, {"loss_chunk": 4}])
def test_a_step_in_another_form_equals_that_of_the_pairs_apart(settings, rng):
    packed, plain, config = pair()
    check_same_step(packed, plain, *batches(config, rng), **settings)


def check_same_step(packed, plain, together, apart, **settings):
    loss, gradients = step(plain, *apart, max_predictions=6, **settings)
    found, gradients_found = step(packed, *together, max_predictions=6, **settings)
    np.testing.assert_allclose(found, loss, rtol=1e-5)
    for path, gradient in gradients.items():
        np.testing.assert_allclose(gradients_found[path], gradient, atol=1e-5, err_msg=path)
    assert max(abs(gradient).max() for path, gradient in gradients.items() if "NSP" in path or "SOP" in path) > 0.01


def test_the_loss_and_the_accuracy_of_an_epoch_are_means_over_the_pairs(rng):
    packed, plain, config = pair()
    results = []
    for model, data in zip((packed, plain), batches(config, rng), strict=True):
        compile_model(model, optimizer="sgd", max_predictions=6)
        inputs, labels = data
        results.append(model.evaluate(of(model, inputs), labels, verbose=0, return_dict=True, batch_size=len(labels[0])))
    assert results[0].keys() == results[1].keys() >= {"NSP_loss", "NSP_accuracy"}
    for name, value in results[1].items():
        assert results[0][name] == pytest.approx(value, rel=1e-5), name


def test_metrics_of_a_training_with_losses_of_keras_count_neither_empty_slots_nor_other_tokens(rng):
    packed, plain, config = pair()
    loss, accuracy = (dict.fromkeys(("MLM", "NSP"), f"sparse_categorical_{name}") for name in ("crossentropy", "accuracy"))
    results = []
    for model, (inputs, labels) in zip((packed, plain), batches(config, rng), strict=True):
        model.compile(keras.optimizers.SGD(0.0), loss, metrics=accuracy)
        settings = {"verbose": 0, "batch_size": len(labels[1])}
        evaluated = model.evaluate(of(model, inputs), labels, return_dict=True, **settings)
        trained = {name: values[0] for name, values in model.fit(of(model, inputs), labels, **settings).history.items()}
        assert trained == pytest.approx(evaluated, rel=1e-5)
        results.append(trained)
    assert results[0] == pytest.approx(results[1], rel=1e-5)


def test_weights_of_rows_weight_their_pairs(rng):
    packed, plain, config = pair()
    (inputs, labels), (inputs_apart, labels_apart) = batches(config, rng)
    weights = np.array([1.0, 0.5, 2.0])
    each = np.repeat(weights, [len(row) for row in ROWS])
    losses = []
    for model, x, y, weight in ((packed, inputs, labels, weights), (plain, inputs_apart, labels_apart, each)):
        compile_model(model, optimizer="sgd", max_predictions=6, metrics=None)
        zeros = np.zeros_like(weight)  # of the MLM head, which alone would have another divisor
        results = model.test_on_batch(of(model, x), y, sample_weight=[zeros, weight], return_dict=True)
        losses.append(results["NSP_loss"] * (y[1].size if model is plain else sum(map(len, ROWS))))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_call_returns_the_classes_of_every_pair_in_order(rng):
    packed, plain, config = pair()
    (inputs, _), (inputs_apart, _) = batches(config, rng)
    found = ops.convert_to_numpy(packed(of(packed, inputs))[1])
    expected = ops.convert_to_numpy(plain(of(plain, inputs_apart))[1])
    np.testing.assert_allclose(
        np.concatenate([row[: len(lengths)] for row, lengths in zip(found, ROWS, strict=True)]), expected, atol=1e-5
    )
    assert found.shape == (len(ROWS), most_sequences(WIDTH), 2)


def test_the_summary_has_the_rows_and_parameters_of_a_model_of_one_pair():
    packed, plain, _ = pair()
    assert [layer.name for layer in packed.layers if layer.name != "Input-Mask"] == [layer.name for layer in plain.layers]
    assert packed.count_params() == plain.count_params()


def test_a_packed_model_with_a_head_on_pairs_is_reloaded(rng, tmp_path):
    packed, _, config = pair()
    (inputs, _), _ = batches(config, rng)
    packed.save(tmp_path / "packed.keras")
    again = keras.saving.load_model(tmp_path / "packed.keras")
    for found, expected in zip(again(of(packed, inputs)), packed(of(packed, inputs)), strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(found), ops.convert_to_numpy(expected))


def test_more_sequences_than_outputs_are_refused(rng):
    packed, _, config = pair()
    (inputs, _), _ = batches(config, rng)
    numbers = np.where(np.arange(WIDTH) < 10, np.arange(WIDTH) // 2 * 2 + 1, 0) * np.ones((len(ROWS), 1), "int32")
    with pytest.raises(ValueError, match=r"at most 4 sequences in a row of 32 tokens, for a head on sequences; got 5 at \[0\]\."):
        packed.predict(of(packed, {**inputs, "Input-Mask": numbers}), verbose=0)


def test_heads_on_the_last_token_of_a_row_are_refused():
    with pytest.raises(ValueError, match="heads on the first token of a sequence; nsp reads Last"):
        build_model(tiny_config(MODULES["xlnet"]), ["mlm", "nsp"], packed=True)


def test_labels_of_another_shape_are_refused(rng):
    packed, _, config = pair()
    (inputs, labels), _ = batches(config, rng)
    compile_model(packed, optimizer="sgd", max_predictions=6)
    with pytest.raises(ValueError, match=r"labels of NSP: expected .* for each of 4 sequences, \(3, 4\); got shape \(3, 1\)"):
        packed.train_on_batch(of(packed, inputs), [labels[0], labels[1][:, :1]])
