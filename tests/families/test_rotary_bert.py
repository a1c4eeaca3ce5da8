"""Nomic BERT and GTE: two spellings of each, what is refused, and everything else that the library does with a model."""

import json

import keras
import numpy as np
import pytest
from helpers.reference import weights_of as values_of
from helpers.run_model import answers
from helpers.small import spread

from keras_bert_rebuild import (
    BertConfig,
    add_lora,
    attention_maps,
    build_model,
    compile_model,
    explain,
    from_pretrained,
    save_pretrained,
)
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.families import gte, nomic_bert
from keras_bert_rebuild.families.gte import GteConfig
from keras_bert_rebuild.families.nomic_bert import NomicBertConfig
from keras_bert_rebuild.layers.rotary import angles
from keras_bert_rebuild.models.build_model import dtype_scope
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface, config_to_huggingface
from keras_bert_rebuild.recipes.model_flops import Work, forward_flops
from keras_bert_rebuild.recipes.planning.plan_memory import step_memory
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.training.distributed.layout_table import axes_of

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
HEADS = [(), ("mlm",), ("classification",), ("token_classification",), ("question_answering",), ("multiple_choice",)]

configs = pytest.mark.parametrize("config", [NOMIC, GTE, GTE.replace(type_vocab_size=0)], ids=["nomic", "gte", "segmentless"])
two_configs = pytest.mark.parametrize("config", [NOMIC, GTE], ids=["nomic", "gte"])

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


def random_model(config, heads, rng):
    return spread(build_model(config, heads), rng)


@pytest.fixture
def ids(rng):
    ids = rng.integers(1, 40, (2, 15)).astype("int32")
    ids[1, 9:] = 0
    return ids


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
        ({"model_type": "nomic_bert", "n_embd": 768, "vocab_size": 9}, "must have the keys of Nomic's own code"),
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


@two_configs
@pytest.mark.parametrize("field", [{"embedding_size": 8}, {"num_hidden_groups": 1}, {"position_offset": 2}])
def test_fields_of_other_families_are_refused(config, field):
    with pytest.raises(ValueError, match=f"{next(iter(field))} must not be set, since {config.family} has no such part"):
        config.replace(**field)


def test_factors_below_1_are_refused():
    with pytest.raises(ValueError, match=r"rope_factor must be a number of at least 1 and at most 1,000,000; got 0\.5"):
        GTE.replace(rope_factor=0.5)


@configs
@pytest.mark.parametrize("heads", HEADS, ids=lambda heads: "_".join(heads) or "encoder")
def test_every_weight_is_counted_named_and_saved_bit_by_bit(config, heads, rng, ids, tmp_path):
    model = random_model(config, heads, rng)
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == {
        path: shape for path, (_, shape) in weights_of(config.encoder(), heads).items()
    }
    assert config.num_params(heads) == model.count_params() == explain(model).total("params")
    assert sum(row.parameters for row in weight_names(config, heads)) == model.count_params()
    save_pretrained(model, tmp_path / "folder")
    back = from_pretrained(tmp_path / "folder")
    assert (back.load_report.missing, back.load_report.unused) == ([], [])
    assert back.config == (config.replace(labels=back.config.labels) if "question_answering" in heads else config)
    for path, value in values_of(model).items():
        np.testing.assert_array_equal(values_of(back)[path], value, err_msg=path)
    for one, two in zip(answers(model, ids, ids * 0), answers(back, ids, ids * 0), strict=True):
        np.testing.assert_array_equal(one, two)


def test_only_the_output_of_gtes_feed_forward_half_has_a_bias():
    def biases(config):
        return [path for path in weights_of(config.encoder(), ()) if path.startswith("Encoder-1") and path.endswith("/bias")]

    attention = [f"Encoder-1-MultiHeadSelfAttention/{name}/bias" for name in ("query", "key", "value", "output")]
    assert biases(NOMIC) == []
    assert biases(GTE) == [*attention, "Encoder-1-FeedForward/output/bias"]


@two_configs
def test_padding_changes_no_answer(config, rng, ids):
    for heads in HEADS:
        model = random_model(config, heads, rng)
        (padded,), (alone,) = answers(model, ids, ids * 0), answers(model, ids[1:, :9], ids[1:, :9] * 0)
        np.testing.assert_allclose(padded[1] if padded.ndim == 2 else padded[1, :9], alone[0], atol=2e-5)


@two_configs
def test_it_is_explained_planned_sharded_and_drawn(config):
    explanation = explain(config, ("mlm", "classification"))
    assert "Position embedding" not in [step.name for step in explanation.steps]
    assert "turned by position" in plot_model(config, ("mlm",), block=True).to_svg()
    assert forward_flops(config, Work(10, 100, 2, 1), pair_head=False) == (
        2 * (2 * 10 * (4 * 16 * 16 + 3 * 16 * 12) + 4 * 100 * 16) + 2 * 2 * (16 * 16 + 16 * 40)
    )
    assert step_memory(config, PretrainSettings(batch_size=2, seq_len=16, max_predictions=2), "gpu", 2).activations > 0
    assert axes_of("Encoder-2-FeedForward/gate/kernel", (16, 12), 4) == (None, "model")


@two_configs
def test_maps_sum_to_1_and_adapters_start_without_effect(config, rng, ids):
    model = random_model(config, ("classification",), rng)
    maps = attention_maps(model, [ids, ids * 0])
    np.testing.assert_allclose(maps.probabilities[1][:1].sum(-1), 1, atol=1e-5)
    (before,) = answers(model, ids, ids * 0)
    add_lora(model, rank=2)
    np.testing.assert_array_equal(answers(model, ids, ids * 0)[0], before)
    assert sum("lora" in variable.path for variable in model.trainable_variables) == 2 * 2 * 2


@two_configs
def test_rematerialisation_changes_no_number(config, rng, ids):
    model = random_model(config, ("mlm", "classification"), rng)
    start, ends = model.get_weights(), []
    for remat in (False, True):
        model.set_weights(start)
        compile_model(model, optimizer=keras.optimizers.SGD(0.1), remat=remat, jit_compile=False)
        model.train_on_batch([ids, ids * 0, np.eye(2, 15, dtype="int32")], {"MLM": ids, "Classification": np.array([0, 2])})
        ends.append(model.get_weights())
    for plain, again in zip(*ends, strict=True):
        np.testing.assert_allclose(again, plain, atol=1e-5)
    assert max(np.abs(plain - before).max() for before, plain in zip(start, ends[0], strict=True)) > 0


def test_rates_drop_where_the_families_drop():
    plain = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}
    for config, inner in ((NOMIC, 0.0), (GTE, 0.3)):
        model = build_model(config.replace(**plain), ())
        rows = [layer.name for layer in model.layers]
        assert rows.index("Embedding-Dropout") > rows.index("Embedding-Norm")
        assert {"Encoder-1-MultiHeadSelfAttention-Dropout", "Encoder-1-FeedForward-Dropout"} <= set(rows)
        assert model.get_layer("Encoder-1-FeedForward").dropout_rate == inner


@two_configs
def test_bfloat16_is_near_float32_and_a_keras_file_restores_the_model(config, rng, ids, tmp_path):
    model = random_model(config, ("token_classification",), rng)
    with dtype_scope("mixed_bfloat16"):
        half = build_model(config, ("token_classification",))
    half.set_weights(model.get_weights())
    (expected,), (got,) = answers(model, ids, ids * 0), answers(half, ids, ids * 0)
    assert np.abs(got - expected)[ids != 0].max() < 0.05 * np.abs(expected).max()
    model.save(tmp_path / "model.keras")
    back = keras.saving.load_model(tmp_path / "model.keras")
    assert back.config == model.config
    np.testing.assert_array_equal(answers(back, ids, ids * 0)[0], expected)


@configs
def test_its_onnx_export_gives_the_same_outputs(config, rng, ids):
    pytest.importorskip("onnx", reason="tox -e export has it")
    reference = pytest.importorskip("onnx.reference")
    from keras_bert_rebuild.export.onnx_model import onnx_model

    for heads in HEADS:
        model = random_model(config, heads, rng)
        session = reference.ReferenceEvaluator(onnx_model(model))
        fed = dict(zip(session.input_names, (ids.astype("int64"), ids.astype("int64") * 0), strict=False))
        (answer,) = session.run(None, fed)
        (expected,) = answers(model, ids, ids * 0)
        real = (ids != 0) if expected.shape[:2] == ids.shape else slice(None)
        np.testing.assert_allclose(answer[real], expected[real], atol=2e-5)


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
