"""Rows of several sequences have the loss and the gradients of the sequences apart."""

import keras
import numpy as np
import pytest
from helpers.packed_batches import ROWS, laid_out, sequences, step
from helpers.small import spread
from helpers.tiny_families import modules, name_of_module, tiny_config
from keras import ops

from keras_bert_rebuild import add_lora, attention_maps, build_model
from keras_bert_rebuild.layers import PositionEmbedding
from keras_bert_rebuild.models.replaced_token_model import build_replaced_token_model
from keras_bert_rebuild.pretrained.vocabulary_surgery import resize_vocabulary
from keras_bert_rebuild.training.lora import without_lora

MODULES = {name_of_module(module): module for module in modules()}

pytestmark = [pytest.mark.backend, pytest.mark.slow]


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


def test_other_sequences_of_a_row_change_nothing(rng):
    config = tiny("bert")
    model = spread(build_model(config, ["mlm"], packed=True), rng)
    given = sequences(rng, config)
    inputs, _ = laid_out(config, given, ROWS)
    changed = {**inputs, "Input-Token": np.where(inputs["Input-Mask"] == 4, 7, inputs["Input-Token"])}
    before, after = (ops.convert_to_numpy(model([x[tensor.name] for tensor in model.inputs])) for x in (inputs, changed))
    untouched = inputs["Input-Mask"] != 4
    np.testing.assert_array_equal(before[untouched], after[untouched])
    assert abs(before - after).max() > 1e-3


def test_a_packed_model_is_reloaded(rng, tmp_path):
    config = tiny("bert")
    model = spread(build_model(config, ["mlm"], packed=True), rng)
    inputs, _ = laid_out(config, sequences(rng, config), ROWS)
    given = [inputs[tensor.name] for tensor in model.inputs]
    model.save(tmp_path / "packed.keras")
    again = keras.saving.load_model(tmp_path / "packed.keras")
    np.testing.assert_array_equal(ops.convert_to_numpy(again(given)), ops.convert_to_numpy(model(given)))


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
