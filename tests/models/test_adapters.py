"""Adapters as in keras_bert 0.69 to 0.81."""

import keras
import numpy as np
import pytest
from helpers.small import LENGTH, VOCAB, answers, compiled, small_batch, small_model, spread

import keras_bert_rebuild
from keras_bert_rebuild import (
    BertConfig,
    get_custom_objects,
    get_encoder_component,
    get_encoders,
    load_trained_model_from_checkpoint,
    save_pretrained,
)
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.explain.accounting import steps_of
from keras_bert_rebuild.explain.summary import summary_rows
from keras_bert_rebuild.models.find_encoder import find_encoder
from keras_bert_rebuild.pretrained.config_of_layers import config_of_layers

D, F, U = 16, 32, 3
ADAPTER = D * U + U + U * D + D
# The rows of a block and their parameters, as keras_bert 0.81 has them: transformer.py of keras_transformer 0.33.
BLOCK = (
    ("MultiHeadSelfAttention", 4 * (D * D + D)),
    ("MultiHeadSelfAttention-Dropout", 0),
    ("MultiHeadSelfAttention-Adapter", ADAPTER),
    ("MultiHeadSelfAttention-Adapter-Add", 0),
    ("MultiHeadSelfAttention-Add", 0),
    ("MultiHeadSelfAttention-Norm", 2 * D),
    ("FeedForward", D * F + F + F * D + D),
    ("FeedForward-Dropout", 0),
    ("FeedForward-Adapter", ADAPTER),
    ("FeedForward-Adapter-Add", 0),
    ("FeedForward-Add", 0),
    ("FeedForward-Norm", 2 * D),
)


def with_adapters(**changes):
    return small_model(**{"use_adapter": True, "adapter_units": U, **changes})


def trained_of_readme(blocks):
    """The prefixes that keras_bert's README gives for adapters."""
    ends = ("MultiHeadSelfAttention-Adapter", "FeedForward-Adapter", "MultiHeadSelfAttention-Norm", "FeedForward-Norm")
    return [f"Encoder-{i + 1}-{end}" for end in ends for i in range(blocks)]


def test_rows_names_and_parameters_are_those_of_keras_bert():
    rows = [(row.name, row.params) for row in summary_rows(with_adapters(dropout_rate=0.1)) if row.name.startswith("Encoder-")]
    assert rows == [(f"Encoder-{n}-{name}", params) for n in (1, 2) for name, params in BLOCK]
    without = [row.name for row in summary_rows(small_model(dropout_rate=0.1))]
    kept = [row.name for row in summary_rows(with_adapters(dropout_rate=0.1)) if "-Adapter" not in row.name]
    assert kept == without


def test_an_adapter_is_added_to_its_input_after_dropout_and_before_the_residual():
    origins = {
        row.name: [origin.split("[")[0] for origin in row.connected_to] for row in summary_rows(with_adapters(dropout_rate=0.1))
    }
    half = "Encoder-1-FeedForward"
    assert origins[f"{half}-Adapter"] == [f"{half}-Dropout"]
    assert origins[f"{half}-Adapter-Add"] == [f"{half}-Dropout", f"{half}-Adapter"]
    assert origins[f"{half}-Add"] == ["Encoder-1-MultiHeadSelfAttention-Norm", f"{half}-Adapter-Add"]


def test_parameters_are_counted_from_the_config_and_the_steps():
    model = with_adapters()
    assert model.config.num_params() == model.count_params() == small_model().count_params() + 4 * ADAPTER
    weights = weights_of(model.config.encoder(), ("mlm", "nsp"))
    assert {v.path: tuple(v.shape) for v in model.weights} == {path: shape for path, (_, shape) in weights.items()}
    assert len([step for step, *_ in steps_of(model.config, ("mlm", "nsp")) if step.name == "Adapter"]) == 2
    assert config_of_layers(find_encoder(model)).adapter_size == U


def test_the_default_width_is_a_hundredth_of_the_hidden_size():
    units = lambda **sizes: small_model(use_adapter=True, **sizes).get_layer("Encoder-1-FeedForward-Adapter").units  # noqa: E731
    assert units() == 1
    assert units(embed_dim=240, transformer_num=1) == 2
    with pytest.raises(ValueError, match="adapter_units must be at least 1, or None for a hundredth of embed_dim; got 0"):
        small_model(use_adapter=True, adapter_units=0)


def test_the_units_alone_make_no_adapters():
    assert not [layer for layer in small_model(adapter_units=3).layers if "Adapter" in layer.name]


def test_a_new_adapter_hardly_changes_the_output(rng):
    plain, adapted = small_model(training=False), with_adapters(training=False)
    plain, adapted = keras.Model(*plain), keras.Model(*adapted)
    spread(plain, rng)
    weights = {v.path: v for v in plain.weights}
    for variable in adapted.weights:
        if variable.path in weights:
            variable.assign(weights[variable.path].value)
    adapter = adapted.get_layer("Encoder-1-FeedForward-Adapter")
    assert 1e-4 < np.std(adapter.get_weights()[0]) < 2e-3
    assert adapter.activation is keras_bert_rebuild.gelu
    ids = rng.integers(5, VOCAB, (2, LENGTH))
    (before,), (after,) = answers(plain, ids, ids * 0), answers(adapted, ids, ids * 0)
    assert 0 < np.abs(before - after).max() < 1e-3
    adapter.set_weights([rng.normal(size=w.shape) for w in adapter.get_weights()])
    assert np.abs(answers(adapted, ids, ids * 0)[0] - before).max() > 0.1


@pytest.mark.slow
def test_the_trainable_prefixes_of_the_readme_train_adapters_and_norms_alone(rng):
    model = compiled(with_adapters(trainable=[*trained_of_readme(2), "MLM", "NSP"]), optimizer=keras.optimizers.SGD(0.5))
    assert {v.path.split("/")[0] for v in model.trainable_weights if v.path.startswith("E")} == set(trained_of_readme(2))
    before = {v.path: keras.ops.convert_to_numpy(v.value).copy() for v in model.weights}
    x, y = small_batch(rng)
    model.train_on_batch(x, y)
    moved = {v.path for v in model.weights if not np.array_equal(before[v.path], keras.ops.convert_to_numpy(v.value))}
    assert {path.split("/")[0] for path in moved if path.startswith("E")} == set(trained_of_readme(2))


def test_a_checkpoint_fills_everything_except_the_adapters(tmp_path, rng):
    base = spread(small_model(), rng)
    save_pretrained(base, tmp_path, "google")
    arguments = {"training": False, "use_adapter": True, "adapter_units": U, "trainable": trained_of_readme(2)}
    model = load_trained_model_from_checkpoint(tmp_path / "bert_config.json", tmp_path / "bert_model.ckpt", **arguments)
    weights = {v.path: keras.ops.convert_to_numpy(v.value) for v in base.weights}
    for variable in model.weights:
        if "Adapter" not in variable.path:
            np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable.value), weights[variable.path])
    assert {v.path.split("/")[0] for v in model.trainable_weights} == set(trained_of_readme(2))


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("file", ["model.keras", "model.h5"])
def test_a_saved_model_is_loaded_with_its_adapters(tmp_path, rng, file):
    model = spread(with_adapters(), rng)
    model.save(tmp_path / file)
    ids = rng.integers(5, VOCAB, (2, LENGTH))
    expected = answers(model, ids, ids * 0)
    for objects in (None, get_custom_objects()):
        loaded = keras.models.load_model(tmp_path / file, custom_objects=objects)
        for got, want in zip(answers(loaded, ids, ids * 0), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_config_with_adapters_round_trips_through_a_dictionary():
    config = BertConfig(adapter_size=8)
    assert BertConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="adapter_size must be a whole number of at least 0; got -1"):
        BertConfig(adapter_size=-1)


def test_a_format_without_names_for_adapters_refuses_them(tmp_path):
    with pytest.raises(ValueError, match="cannot represent adapter_size=3, so other programs would compute something else"):
        save_pretrained(with_adapters(), tmp_path / "model", "huggingface")
    assert not (tmp_path / "model").exists()


def test_get_encoders_builds_the_blocks_of_get_model():
    inputs = keras.Input((LENGTH, D))
    model = keras.Model(inputs, get_encoders(2, inputs, 2, F, dropout_rate=0.1, use_adapter=True, adapter_units=U))
    assert [(row.name, row.params) for row in summary_rows(model)][1:] == [
        (f"Encoder-{n}-{name}", params) for n in (1, 2) for name, params in BLOCK
    ]
    assert model.get_layer("Encoder-1-FeedForward").activation is keras_bert_rebuild.gelu
    assert model.get_layer("Encoder-1-FeedForward-Adapter").activation is keras.activations.relu


def test_get_encoders_computes_what_get_model_computes(rng):
    (tokens, segments), output = small_model(training=False)
    bert = spread(keras.Model([tokens, segments], output), rng)
    x, _ = keras_bert_rebuild.layers.get_embedding([tokens, segments], token_num=VOCAB, pos_num=LENGTH, embed_dim=D)
    x = keras_bert_rebuild.layers.LayerNormalization(name="Embedding-Norm")(x)
    own = keras.Model([tokens, segments], get_encoders(2, x, 2, F))
    assert [v.path for v in own.weights] == [v.path for v in bert.weights]
    own.set_weights(bert.get_weights())
    ids = rng.integers(5, VOCAB, (2, LENGTH))
    ids[:, -3:] = 0
    np.testing.assert_allclose(answers(own, ids, ids * 0)[0], answers(bert, ids, ids * 0)[0], atol=1e-6)


def test_a_component_has_its_given_name_and_is_frozen_except_its_adapters():
    inputs = keras.Input((None, D))
    output = get_encoder_component("Top", inputs, 2, F, trainable=False, use_adapter=True, adapter_units=U)
    model = keras.Model(inputs, output)
    assert model.get_layer("Top-FeedForward").activation is keras.activations.relu
    assert {v.path.split("/")[0] for v in model.trainable_weights} == {
        "Top-MultiHeadSelfAttention-Adapter",
        "Top-FeedForward-Adapter",
    }
    with pytest.raises(ValueError, match="adapter_units must be at least 1 with use_adapter; got None"):
        get_encoder_component("Top", inputs, 2, F, use_adapter=True)
    with pytest.raises(IndexError, match="Invalid head number 3 with the given input dim 16"):
        get_encoder_component("Top", inputs, 3, F)
