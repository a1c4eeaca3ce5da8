"""The configs of Nomic BERT and GTE: two spellings of each, and what is refused."""

import keras
import numpy as np
import pytest

from keras_bert_rebuild import BertConfig
from keras_bert_rebuild.families import gte, nomic_bert
from keras_bert_rebuild.families.gte import GteConfig
from keras_bert_rebuild.families.nomic_bert import NomicBertConfig
from keras_bert_rebuild.layers.position_embedding import angles
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface, config_to_huggingface

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


@pytest.mark.parametrize("module", [nomic_bert, gte], ids=["nomic", "gte"])
def test_published_parameter_counts_follow_from_the_config(module):
    for name, changes, count in module.SIZES:
        family = next(iter(module.MODEL_TYPES))
        assert BertConfig.from_dict({"family": family, **changes}).num_params(()) == count, name


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
        ({**NOMICS, "rotary_emb_fraction": 0.5}, "rotary_emb_fraction must be 1.0, got 0.5"),
        ({**NOMICS, "rotary_emb_interleaved": True}, "rotary_emb_interleaved must be False"),
        ({**NOMICS, "rotary_emb_scale_base": 512}, "rotary_emb_scale_base must be None"),
        ({**NOMICS, "prenorm": True}, "prenorm must be False"),
        ({**NOMICS, "causal": True}, "causal must be False"),
        ({**NOMICS, "qkv_proj_bias": True}, "qkv_proj_bias must be False"),
        ({**NOMICS, "mlp_fc1_bias": True}, "mlp_fc1_bias must be False"),
        ({**NOMICS, "use_rms_norm": True}, "use_rms_norm must be False"),
        ({**NOMICS, "moe_every_n_layers": 2, "num_experts": 8}, "moe_every_n_layers must be 0"),
        ({**NOMICS, "embd_pdrop": 0.3}, r"embd_pdrop must be resid_pdrop=0\.0; got 0\.3"),
        ({**NOMICS, "hidden_size": 12}, "n_embd must be hidden_size=12; got 768"),
        ({"model_type": "nomic_bert", "n_embd": 768, "vocab_size": 9}, "must have all keys of Nomic's own code"),
        ({"model_type": "nomic_bert", "tie_word_embeddings": False}, "tie_word_embeddings must be True"),
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
        ({**GTES, "position_embedding_type": "absolute"}, "position_embedding_type must be 'rope'"),
        ({**GTES, "layer_norm_type": "rms_norm"}, "layer_norm_type must be 'layer_norm'"),
        ({**GTES, "logn_attention_scale": True}, "logn_attention_scale must be False"),
    ],
)
def test_settings_that_are_not_implemented_are_refused_in_one_sentence(values, said):
    with pytest.raises(ValueError, match=said) as error:
        config_from_huggingface(values)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("config", [NomicBertConfig(), GteConfig()], ids=["nomic", "gte"])
@pytest.mark.parametrize("field", [{"embedding_size": 8}, {"num_hidden_groups": 1}, {"position_offset": 2}])
def test_fields_of_other_families_are_refused(config, field):
    with pytest.raises(ValueError, match=f"{next(iter(field))} must not be set, since {config.family} has no such part"):
        config.replace(**field)


def test_factors_below_1_are_refused():
    with pytest.raises(ValueError, match=r"rope_factor must be a number of at least 1 and at most 1,000,000; got 0\.5"):
        GteConfig(rope_factor=0.5)
