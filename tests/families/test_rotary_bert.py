"""Nomic BERT and GTE: two spellings of their configs, what is refused, and their models and files."""

import json

import keras
import numpy as np
import pytest
from helpers import small_tokenizers
from helpers.small import answers, random_model

from keras_bert_rebuild import (
    TextClassifier,
    WordPieceTokenizer,
    build_model,
    fill_mask,
    from_pretrained,
    load_task,
    load_tokenizer,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.families.gte import GteConfig
from keras_bert_rebuild.families.nomic_bert import NomicBertConfig
from keras_bert_rebuild.layers.position_embedding import angles
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface, config_to_huggingface
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer

SMALL = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 48,
    "pad_token_id": 0,
    "hidden_dropout_prob": 0.0,
    "labels": ("a", "b", "c"),
}
NOMIC = NomicBertConfig(**SMALL)
GTE = GteConfig(**SMALL, rope_factor=1.5)


@pytest.fixture
def ids(rng):
    ids = rng.integers(1, 40, (2, 15)).astype("int32")
    ids[1, 9:] = 0
    return ids


def test_only_the_output_of_gtes_feed_forward_half_has_a_bias():
    def biases(config):
        return [path for path in weights_of(config.encoder(), ()) if path.startswith("Encoder-1") and path.endswith("/bias")]

    attention = [f"Encoder-1-MultiHeadSelfAttention/{name}/bias" for name in ("query", "key", "value", "output")]
    assert biases(NOMIC) == []
    assert biases(GTE) == [*attention, "Encoder-1-FeedForward/output/bias"]


def test_rates_drop_where_the_families_drop():
    plain = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}
    for config, inner in ((NOMIC, 0.0), (GTE, 0.3)):
        model = build_model(config.replace(**plain), ())
        rows = [layer.name for layer in model.layers]
        assert rows.index("Embedding-Dropout") > rows.index("Embedding-Norm")
        assert {"Encoder-1-MultiHeadSelfAttention-Dropout", "Encoder-1-FeedForward-Dropout"} <= set(rows)
        assert model.get_layer("Encoder-1-FeedForward").dropout_rate == inner


def test_a_file_without_packed_projections_is_read(rng, ids, tmp_path):
    from safetensors.numpy import load_file, save_file

    model = random_model(GTE, ("mlm",), rng)
    save_pretrained(model, tmp_path)
    arrays = {}
    for name, array in load_file(tmp_path / "model.safetensors").items():
        head, packed, rest = name.partition("attention.qkv_proj")
        if packed:
            arrays |= {f"{head}attention.{part}_proj{rest}": third for part, third in zip("qkv", np.split(array, 3), strict=True)}
        else:
            arrays[name.replace("gte.", "new.")] = array
    save_file(
        {name.replace("gte.", "new."): np.ascontiguousarray(array) for name, array in arrays.items()},
        tmp_path / "model.safetensors",
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pack_qkv": False}))
    back = from_pretrained(tmp_path)
    assert not back.load_report.unused
    np.testing.assert_array_equal(answers(back, ids, ids * 0)[0], answers(model, ids, ids * 0)[0])


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "##s", "a"]


@pytest.mark.parametrize("kind", [WordPieceTokenizer, SentencePieceTokenizer])
def test_a_folder_with_its_tokenizer_fills_masks_shows_attention_and_classifies(kind, rng, tmp_path):
    config, tokenizer, mask = NOMIC, WordPieceTokenizer({word: i for i, word in enumerate(PIECES)}), "[MASK]"
    if kind is SentencePieceTokenizer:
        config = GTE.replace(vocab_size=170, pad_token_id=1)
        tokenizer, mask = SentencePieceTokenizer(small_tokenizers.sentencepiece("xlm_roberta"), "xlm_roberta"), "<mask>"
    save_pretrained(random_model(config, ("mlm",), rng), tmp_path / "folder", vocabulary=tokenizer)
    path = tmp_path / "folder" / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    del settings["tokenizer_class"]  # then the model_type decides, as in transformers
    path.write_text(json.dumps(settings))
    model, back = from_pretrained(tmp_path / "folder", padding_mask=True), load_tokenizer(tmp_path / "folder")
    assert isinstance(back, kind)
    assert len(fill_mask(model, back, f"the {mask} cat", top_k=3)[0]) == 3
    assert embedding_anatomy(model, back, "the cat").parts == ("token", "segment")
    assert "the cat" in show_attention(model, back, "the cat", name="the cat").html
    task = TextClassifier.from_encoder(tmp_path / "folder", labels=["cat", "dog"])
    task.save(tmp_path / "task")
    assert load_task(tmp_path / "task")(["the cat"]) == task(["the cat"])


# The config.json of a model of Nomic, in the spelling of its own code.
NOMICS = {
    "model_type": "nomic_bert",
    "activation_function": "swiglu",
    "attn_pdrop": 0.0,
    "causal": False,
    "embd_pdrop": 0.0,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "n_positions": 8192,
    "pad_vocab_size_multiple": 64,
    "prenorm": False,
    "qkv_proj_bias": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
# That of GTE's multilingual model, in the spelling of GTE's code.
GTES = {
    "model_type": "new",
    "vocab_size": 250048,
    "hidden_act": "gelu",
    "max_position_embeddings": 8192,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "position_embedding_type": "rope",
    "rope_theta": 20000,
    "rope_scaling": {"type": "ntk", "factor": 8.0},
    "layer_norm_type": "layer_norm",
    "logn_attention_scale": False,
    "logn_attention_clip1": False,
    "pack_qkv": True,
}


def test_nomics_own_spelling_means_the_same_as_that_of_transformers():
    config = config_from_huggingface(NOMICS)
    assert config == NomicBertConfig(max_position_embeddings=8192, labels=config.labels)
    written = config_to_huggingface(config, ("mlm",))
    assert written["rope_parameters"] == {"rope_type": "default", "rope_theta": 1000.0}
    assert config_from_huggingface(written) == config
    assert config_from_huggingface({**NOMICS, "activation_function": "geglu", "n_inner": None}) == config.replace(
        hidden_act="gelu_erf"
    )


def test_positions_that_nomic_would_scale_are_not_offered():
    assert config_from_huggingface({**NOMICS, "rotary_scaling_factor": 2}).max_length == 2048
    assert config_from_huggingface({**NOMICS, "rotary_scaling_factor": 2, "n_positions": 512}).max_length == 512


def test_gtes_own_spelling_means_the_same_as_that_of_transformers():
    config = config_from_huggingface(GTES)
    assert config == GteConfig(rope_theta=160_000.0, rope_factor=8 ** (2 / 64), labels=config.labels)
    written = config_to_huggingface(config)
    assert (written["model_type"], written["architectures"]) == ("gte", ["GteModel"])
    assert written["rope_parameters"] == {"rope_type": "linear", "factor": 8 ** (2 / 64), "rope_theta": 160_000.0}
    assert config_from_huggingface(written) == config
    # The angles of GTE's code: the base times 8, and the frequencies divided by 8 ** (2 / width).
    frequencies = 1 / (20000 * 8) ** (np.arange(0, 64, 2) / 64) / 8 ** (2 / 64)
    positions = config.encoder().blocks[0].attention.rotary
    cosines, _ = angles(np.arange(5), 64, positions.theta, positions.factor)
    expected = np.cos(np.arange(5)[:, None] * frequencies)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(cosines)[:, 0, :32], expected, atol=1e-6)


def test_another_activation_of_gtes_code_is_not_written_as_that_of_transformers():
    config = config_from_huggingface({**GTES, "hidden_act": "relu"})
    assert (config.hidden_act, config.mlm_act) == ("relu", "relu")
    with pytest.raises(ValueError, match="cannot represent mlm_act='relu'"):
        config_to_huggingface(config)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({**NOMICS, "activation_function": "gelu"}, "activation_function must be one of swiglu, geglu, glu"),
        ({**NOMICS, "activation_function": ["swiglu"]}, "activation_function must be one of swiglu, geglu, glu"),
        ({**NOMICS, "moe_every_n_layers": 2, "num_experts": 8}, "moe_every_n_layers must be 0"),
        ({**NOMICS, "embd_pdrop": 0.3}, r"embd_pdrop must be resid_pdrop=0\.0; got 0\.3"),
        ({**NOMICS, "hidden_size": 12}, "n_embd must be hidden_size=12; got 768"),
        ({"model_type": "nomic_bert", "n_embd": 768, "vocab_size": 9}, "must have all keys of Nomic's own code"),
        ({"model_type": "nomic_bert", "head_dim": 32}, "head_dim must be hidden_size / num_attention_heads"),
        ({"model_type": "nomic_bert", "rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rotary positions must have"),
        ({"model_type": "nomic_bert", "rope_parameters": {"rope_type": "ntk", "factor": 2.0}}, "type default, or linear with"),
        ({"model_type": "nomic_bert", "rope_parameters": {"rope_type": "default", "factor": 2.0}}, "rotary positions must have"),
        ({"model_type": "nomic_bert", "rope_parameters": {"rope_type": "linear", "factor": "2"}}, "rotary positions must have"),
        ({"model_type": "nomic_bert", "rope_parameters": {"partial_rotary_factor": 0.5}}, "rotary positions must have"),
        ({"model_type": "nomic_bert", "rope_parameters": [1]}, "rope_parameters must be an object"),
        ({"model_type": "nomic_bert", "rope_parameters": {"rope_theta": "x"}}, "rope_theta must be a number above 0"),
        ({"model_type": "nomic_bert", "num_attention_heads": 256}, "the width of a head must be even"),
        ({**GTES, "rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.625}}, "rotary positions must have"),
        ({**GTES, "rope_scaling": {"type": "dynamic", "factor": 8.0}}, "rotary positions must have"),
        ({**GTES, "rope_scaling": {"type": "ntk", "factor": 0.5}}, "a factor of at least 1"),
        ({**GTES, "rope_theta": "x"}, "rope_theta must be a number above 0"),
    ],
)
def test_settings_that_are_not_implemented_are_refused_in_one_sentence(values, said):
    with pytest.raises(ValueError, match=said) as error:
        config_from_huggingface(values)
    assert "\n" not in str(error.value)


def test_factors_below_1_are_refused():
    with pytest.raises(ValueError, match=r"rope_factor must be a number of at least 1 and at most 1,000,000; got 0\.5"):
        GteConfig(rope_factor=0.5)
