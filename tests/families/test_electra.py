"""ELECTRA: tables of a width of their own, a head that finds replaced tokens, and folders as transformers writes them."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.reference import weights_of
from safetensors.numpy import load_file

from keras_bert_rebuild import (
    BertConfig,
    add_lora,
    attention_maps,
    build_model,
    compile_model,
    explain,
    from_pretrained,
    load_tokenizer,
    save_pretrained,
)
from keras_bert_rebuild.config import CONFIG_CLASSES
from keras_bert_rebuild.explain.config_at import config_at
from keras_bert_rebuild.families import electra
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface, config_to_huggingface
from keras_bert_rebuild.recipes.planning.plan import plan
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import step_memory
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer
from keras_bert_rebuild.training.distributed.distribution import axes_of
from keras_bert_rebuild.training.losses import ReplacedTokenAccuracy, ReplacedTokenLoss

GOLDEN = Path(__file__).parents[1] / "golden"
SIZES = {"vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
CASES = sorted(folder.name for folder in GOLDEN.glob("electra*"))


def small(**changes):
    return config_from_huggingface({"model_type": "electra", **SIZES, "max_position_embeddings": 24, **changes})


@pytest.mark.parametrize("case", CASES)
def test_a_folder_of_transformers_is_written_back_with_the_same_bytes(case, tmp_path):
    save_pretrained(from_pretrained(GOLDEN / case), tmp_path)
    before, after = (load_file(folder / "model.safetensors") for folder in (GOLDEN / case, tmp_path))
    assert {name: array.tobytes() for name, array in before.items()} == {name: array.tobytes() for name, array in after.items()}
    theirs, ours = (json.loads((folder / "config.json").read_text()) for folder in (GOLDEN / case, tmp_path))
    assert {key: theirs[key] for key in ours.keys() & theirs.keys()} == {key: ours[key] for key in ours.keys() & theirs.keys()}
    assert theirs["embedding_size"] == ours["embedding_size"]


def test_only_tables_of_another_width_are_projected():
    for width, widened in ((12, False), (6, True), (31, True)):
        config = small(embedding_size=width)
        assert (config.embedding_width, config.encoder().embedding.widened) == (width, widened)
        assert config_to_huggingface(config, ["rtd"])["embedding_size"] == width
        assert build_model(config, ["rtd"]).count_params() == config.num_params(["rtd"])
    with pytest.raises(ValueError, match=r"config\.json of electra cannot represent embedding_size=12"):  # projected 12 to 12
        config_to_huggingface(small(embedding_size=12).replace(embedding_size=12))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("summary_type", "mean"),
        ("summary_use_proj", False),
        ("summary_activation", "tanh"),
        ("summary_proj_to_labels", True),
        ("is_decoder", True),
        ("position_embedding_type", "relative_key"),
    ],
)
def test_settings_that_are_computed_otherwise_are_refused(key, value):
    with pytest.raises(ValueError, match=f"config.json describes another architecture: {key} must be "):
        small(**{key: value})


@pytest.mark.parametrize(
    ("ending", "heads"),
    [
        ("ForPreTraining", ("rtd",)),
        ("ForMaskedLM", ("mlm",)),
        ("ForSequenceClassification", ("classification",)),
        ("ForMultipleChoice", ("multiple_choice",)),
        ("Model", ()),
    ],
)
def test_the_class_in_a_config_alone_says_the_heads(ending, heads, tmp_path):
    values = {"model_type": "electra", **SIZES, "architectures": [f"Electra{ending}"]}
    (tmp_path / "config.json").write_text(json.dumps(values))
    config, found = config_at(tmp_path)
    assert found == heads
    assert explain(config, found).total("params") == config.num_params(heads)
    assert config_to_huggingface(config, heads)["architectures"] == [f"Electra{ending}"]


def test_the_pooled_heads_are_gelu_of_a_dense_layer_and_the_generator_has_its_own_activation():
    encoder = small(hidden_act="relu").encoder()
    assert (encoder.pooler_activation, encoder.mlm_activation, encoder.rtd_activation) == ("gelu_erf", "gelu_erf", "relu")
    assert "electra" not in CONFIG_CLASSES
    assert "pooler" not in electra.HUGGINGFACE.heads


def test_a_discriminator_becomes_a_classifier_with_a_new_head(tmp_path):
    config = small(id2label={"0": "a", "1": "b", "2": "c"})
    save_pretrained(build_model(config, ["rtd"]), tmp_path / "discriminator")
    assert heads_of(from_pretrained(tmp_path / "discriminator")) == ("rtd",)
    with pytest.warns(UserWarning, match="4 of .* variables are newly initialised"):
        model = from_pretrained(tmp_path / "discriminator", heads=["classification"], strict=False)
    save_pretrained(model, tmp_path / "classifier")
    names = set(load_file(tmp_path / "classifier" / "model.safetensors"))
    assert {name for name in names if not name.startswith("electra.")} == {
        f"classifier.{part}.{weight}" for part in ("dense", "out_proj") for weight in ("weight", "bias")
    }


def test_its_tokenizer_is_wordpiece(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s"]))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "ElectraTokenizer", "do_lower_case": true}')
    (tmp_path / "config.json").write_text('{"model_type": "electra"}')
    tokenizer = load_tokenizer(tmp_path)
    assert isinstance(tokenizer, WordPieceTokenizer)
    assert tokenizer.encode_batch(["The cats"]).ids[0].tolist() == [2, 5, 6, 7, 3]


def examples(rng, count=32, length=10):
    """Texts of odd tokens, of which some are replaced by even ones; -100 at padding."""
    ids = 2 * rng.integers(2, 20, (count, length)) - 1
    labels = (rng.random(ids.shape) < 0.3).astype("int32")
    ids = ids + labels
    ids[:, 8:], labels[:, 8:] = 0, -100
    return ids.astype("int32"), labels


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True])
def test_a_discriminator_learns_which_tokens_were_replaced(rng, lora):
    model = build_model(small(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), ["rtd"], seq_len=10)
    if lora:
        add_lora(model, rank=4)
    compile_model(model, optimizer=keras.optimizers.Adam(0.02))
    ids, labels = examples(rng)
    results = model.evaluate([ids, ids * 0], labels, verbose=0, return_dict=True)
    logits = model.predict([ids, ids * 0], verbose=0)[..., 0]
    real = labels >= 0
    assert results["accuracy"] == pytest.approx(((logits > 0) == labels)[real].mean(), abs=1e-6)
    expected = np.logaddexp(0, logits) - labels * logits
    assert results["loss"] == pytest.approx(expected[real].mean(), rel=1e-4)
    history = model.fit([ids, ids * 0], labels, epochs=25, batch_size=16, verbose=0).history
    # Adapters alone learn less here: the encoder and the head have random weights.
    assert history["accuracy"][-1] > (0.72 if lora else 0.98)
    assert history["loss"][-1] < history["loss"][0]


def test_padding_and_tokens_that_do_not_count_change_no_loss(rng):
    model = build_model(small(), ["rtd"])
    ids, labels = examples(rng, 3)
    logits = model.predict([ids, ids * 0], verbose=0)
    expected = float(ReplacedTokenLoss()(labels, logits))
    model.compile(loss=ReplacedTokenLoss())
    filled = np.where(labels < 0, 1, labels)[..., None]
    assert model.evaluate([ids, ids * 0], filled, verbose=0) == pytest.approx(expected, rel=1e-5)
    halves = np.stack([labels[:, ::2], labels[:, 1::2] * 0 - 100], -1).reshape(labels.shape)
    weighted = float(ReplacedTokenLoss()(labels, logits, np.tile([1.0, 0.0], (3, 5))))
    assert float(ReplacedTokenLoss()(halves, logits)) == pytest.approx(weighted, rel=1e-6)
    metric = keras.metrics.deserialize(keras.metrics.serialize(ReplacedTokenAccuracy()))
    metric.update_state(np.array([[0, 1, 1]]), np.array([[[-1.0], [1.0], [-1.0]]]))
    assert float(metric.result()) == pytest.approx(2 / 3)


@pytest.mark.parametrize("ending", ["keras", "folder"])
def test_a_saved_discriminator_answers_the_same(ending, rng, tmp_path):
    model = build_model(small(embedding_size=6), ["rtd"])
    for variable in model.weights:
        variable.assign(0.3 * rng.normal(size=variable.shape).astype("float32"))
    if ending == "keras":
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
    else:
        save_pretrained(model, tmp_path / "folder")
        again = from_pretrained(tmp_path / "folder")
    for path, value in weights_of(model).items():
        np.testing.assert_array_equal(weights_of(again)[path], value)
    ids, _ = examples(rng, 3)
    np.testing.assert_array_equal(again.predict([ids, ids * 0], verbose=0), model.predict([ids, ids * 0], verbose=0))


def test_masked_and_replaced_tokens_are_two_heads_of_one_encoder(rng):
    model = compile_model(build_model(small(), ["mlm", "rtd"], seq_len=10), max_predictions=4, remat=True, optimizer="sgd")
    ids, labels = examples(rng, 4)
    chosen = np.zeros_like(ids)
    chosen[:, 2:4] = 1
    results = model.evaluate([ids, ids * 0, chosen], {"MLM": ids, "RTD": labels}, verbose=0, return_dict=True)
    assert set(results) == {"loss", "MLM_loss", "RTD_loss", "MLM_accuracy", "RTD_accuracy"}
    assert np.isfinite(model.train_on_batch([ids, ids * 0, chosen], {"MLM": ids, "RTD": labels}, return_dict=True)["loss"])


def test_bfloat16_changes_answers_little(rng):
    config = BertConfig.from_dict(small().to_dict())
    model = build_model(config, ["rtd"])
    ids, _ = examples(rng, 3)
    expected = keras.ops.convert_to_numpy(model([ids, ids * 0]))
    keras.config.set_dtype_policy("mixed_bfloat16")
    other = build_model(config, ["rtd"])
    other.set_weights(model.get_weights())
    got = keras.ops.convert_to_numpy(other([ids, ids * 0]))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, atol=0.05)


def test_it_is_planned_and_its_head_is_on_every_device():
    phase = PretrainSettings(batch_size=2, seq_len=16, max_predictions=2)
    assert step_memory(small(), phase, "gpu", 2).activations > 0
    planned = plan(small(), gpus=1, gpu="h100", seq_len=16, next_sentence="none")
    assert planned.num_parameters == small().num_params(["mlm"])
    assert axes_of("RTD-Dense/kernel", (12, 12), 4) == axes_of("Embedding-Mapping/kernel", (8, 12), 4)


def test_attention_maps_of_a_discriminator_are_those_of_its_encoder(rng):
    model = build_model(small(embedding_size=6), ["rtd"])
    ids, _ = examples(rng, 2)
    maps = attention_maps(model, [ids, ids * 0])
    assert maps.probabilities.shape == (2, 2, 3, 10, 10)
    np.testing.assert_allclose(maps.probabilities.sum(-1), 1, atol=1e-5)
    assert not maps.probabilities[..., 8:].any()


def test_its_onnx_export_gives_the_same_logits(rng):
    pytest.importorskip("onnx", reason="tox -e export has it")
    reference = pytest.importorskip("onnx.reference")
    from keras_bert_rebuild.export.onnx_model import onnx_model

    model = build_model(small(embedding_size=6, hidden_act="silu"), ["rtd"])
    ids, _ = examples(rng, 3)
    session = reference.ReferenceEvaluator(onnx_model(model))
    (answer,) = session.run(None, dict.fromkeys(session.input_names, ids.astype("int64") * 0) | {"input_ids": ids.astype("int64")})
    expected = model.predict([ids, ids * 0], verbose=0)
    np.testing.assert_allclose(answer[ids != 0], expected[ids != 0], atol=2e-5)


@pytest.mark.parametrize("family", ["electra", "roberta", "bert"])
def test_its_classifier_drops_before_and_after_its_dense_layer(family):
    config = config_from_huggingface({"model_type": family, **SIZES, "max_position_embeddings": 24, "classifier_dropout": 0.5})
    model = build_model(config.replace(labels=("a", "b")), ["classification", "multiple_choice"])
    rows = [layer.name for layer in model.layers]
    assert ("Extract-Dropout" in rows) == config.dropout_before_pooler == (family != "bert")
    assert model.get_layer("Classification-Dropout").rate == 0.5
    without = build_model(config.replace(labels=("a", "b"), dropout_before_pooler=False), ["classification", "multiple_choice"])
    without.set_weights(model.get_weights())
    ids = np.random.default_rng(3).integers(1, 40, (2, 7)).astype("int32")
    inputs = [ids, np.zeros_like(ids)]
    for one, other in zip(model(inputs, training=False), without(inputs, training=False), strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))
