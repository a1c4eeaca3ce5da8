"""ELECTRA: tables of a width of their own, a head that finds replaced tokens, and folders as transformers writes them."""

import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert_rebuild import (
    add_lora,
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
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer
from keras_bert_rebuild.training.losses import ReplacedTokenAccuracy, ReplacedTokenLoss

SIZES = {"vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}


def small(**changes):
    return config_from_huggingface({"model_type": "electra", **SIZES, "max_position_embeddings": 24, **changes})


def test_only_tables_of_another_width_are_projected():
    for width, widened in ((12, False), (6, True), (31, True)):
        config = small(embedding_size=width)
        assert (config.embedding_width, config.encoder().embedding.widened) == (width, widened)
        assert config_to_huggingface(config, ["rtd"])["embedding_size"] == width
        assert build_model(config, ["rtd"]).count_params() == config.num_params(["rtd"])
    with pytest.raises(ValueError, match=r"config\.json of electra cannot represent embedding_size=12"):  # projected 12 to 12
        config_to_huggingface(small(embedding_size=12).replace(embedding_size=12))


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


def test_masked_and_replaced_tokens_are_two_heads_of_one_encoder(rng):
    model = compile_model(build_model(small(), ["mlm", "rtd"], seq_len=10), max_predictions=4, remat=True, optimizer="sgd")
    ids, labels = examples(rng, 4)
    chosen = np.zeros_like(ids)
    chosen[:, 2:4] = 1
    results = model.evaluate([ids, ids * 0, chosen], {"MLM": ids, "RTD": labels}, verbose=0, return_dict=True)
    assert set(results) == {"loss", "MLM_loss", "RTD_loss", "MLM_accuracy", "RTD_accuracy"}
    assert np.isfinite(model.train_on_batch([ids, ids * 0, chosen], {"MLM": ids, "RTD": labels}, return_dict=True)["loss"])


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
