"""Configs of files: what missing keys mean, what is refused before anything is built, and what layers say where there is none."""

import json
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.hostile_inputs import EXHAUSTIVE, fuzzed_config
from helpers.toy_family import ToyConfig

from keras_bert_rebuild import BertConfig, build_model, from_pretrained
from keras_bert_rebuild.families import FAMILIES, own
from keras_bert_rebuild.models.find_encoder import find_encoder
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, config_to_huggingface, read_json
from keras_bert_rebuild.pretrained.config_of_layers import config_from_keras_2, config_of_layers
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
# vocab_size, hidden_size, layers, heads, intermediate_size, hidden_act, max_position_embeddings, type_vocab_size, layer_norm_eps,
# pad_token_id, hidden_dropout_prob, classifier_dropout
FIELDS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
    "hidden_dropout_prob",
    "classifier_dropout",
)
SILENT = {
    "bert": (30522, 768, 12, 12, 3072, "gelu_erf", 512, 2, 1e-12, 0, 0.1, None),
    "roberta": (50265, 768, 12, 12, 3072, "gelu_erf", 512, 2, 1e-12, 1, 0.1, None),
    "xlm-roberta": (30522, 768, 12, 12, 3072, "gelu_erf", 512, 2, 1e-12, 1, 0.1, None),
    "camembert": (30522, 768, 12, 12, 3072, "gelu_erf", 512, 2, 1e-12, 1, 0.1, None),
    "albert": (30000, 4096, 12, 64, 16384, "gelu", 512, 2, 1e-12, 0, 0.0, 0.1),
    "modernbert": (50368, 768, 22, 12, 1152, "gelu_erf", 8192, 0, 1e-5, 50283, 0.0, 0.0),
    "electra": (30522, 256, 12, 4, 1024, "gelu_erf", 512, 2, 1e-12, 0, 0.1, None),
    "distilbert": (30522, 768, 6, 12, 3072, "gelu_erf", 512, 0, 1e-12, 0, 0.1, 0.2),
    "nomic_bert": (30528, 768, 12, 12, 3072, "silu", 2048, 2, 1e-12, 0, 0.0, None),
    "gte": (250048, 768, 12, 12, 3072, "gelu_erf", 8192, 1, 1e-12, 1, 0.1, None),
    "new": (30528, 768, 12, 12, 3072, "gelu_erf", 2048, 1, 1e-12, 0, 0.1, None),  # GTE's own code
    "deberta-v2": (128100, 1536, 24, 24, 6144, "gelu_erf", 512, 0, 1e-7, 0, 0.1, None),
    "xlnet": (32000, 1024, 24, 16, 4096, "gelu_erf", 512, 3, 1e-12, 5, 0.1, 0.1),
}
# Of XLNet null is a value: no limit of memories, and no activation, which is refused.
NULL_IS_A_VALUE = {"mem_len", "summary_activation"}


@pytest.mark.parametrize("family", SILENT)
def test_an_empty_config_has_the_defaults_of_the_class_of_transformers(family):
    config = config_from_huggingface({"model_type": family})
    assert tuple(getattr(config, field) for field in FIELDS) == SILENT[family]
    nothing = {key: None for _, key in FAMILIES[family].CONFIG if key not in NULL_IS_A_VALUE}
    assert config_from_huggingface({"model_type": family, **nothing}) == config
    assert set(SILENT) == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_setting_with_one_value_that_is_computed_refuses_others_in_one_sentence(family):
    silent = config_from_huggingface({"model_type": family})
    for key, value in own(FAMILIES[family], "FIXED"):
        assert config_from_huggingface({"model_type": family, key: value}) == silent
        with pytest.raises(ValueError, match=f"describes another architecture: {key} must be .*, got 'x'") as error:
            config_from_huggingface({"model_type": family, key: "x"})
        assert "\n" not in str(error.value)


def test_a_missing_activation_is_the_error_function_and_not_the_tanh_form(tmp_path):
    for file in (GOLDEN / "bert").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    values = json.loads((tmp_path / "config.json").read_text())
    assert values.pop("hidden_act") == "gelu"
    (tmp_path / "config.json").write_text(json.dumps(values))
    golden = np.load(GOLDEN / "bert" / "golden.npz")
    got = from_pretrained(tmp_path)([golden["ids"], golden["segments"]], training=False)[0]
    real = golden["ids"] != 0
    np.testing.assert_allclose(keras.ops.convert_to_numpy(got)[real], golden["0"][real], atol=1e-5)


def test_distilbert_takes_the_common_names_of_its_sizes_as_transformers_does():
    values = {"model_type": "distilbert", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3}
    config = config_from_huggingface(values)
    assert (config.hidden_size, config.num_attention_heads, config.num_hidden_layers) == (64, 4, 3)


@pytest.mark.parametrize(
    ("family", "key"),
    [
        ("albert", "classifier_dropout_prob"),
        ("distilbert", "seq_classif_dropout"),
        ("modernbert", "classifier_dropout"),
    ],
)
def test_a_rate_whose_default_differs_is_written(family, key):
    config = config_from_huggingface({"model_type": family}).replace(classifier_dropout=None, hidden_dropout_prob=0.25)
    assert config_to_huggingface(config, ["classification"])[key] == 0.25


COUNT = 2500 if EXHAUSTIVE else 250
FUZZED = ("bert_classification", "roberta_classification", "distilbert_classification", "albert_groups", "electra_discriminator")


@pytest.mark.parametrize("folder", FUZZED)
def test_fuzzed_configs_describe_a_model_or_are_one_sentence(tmp_path, folder):
    good, rng = json.loads((GOLDEN / folder / "config.json").read_text()), np.random.default_rng(7)
    refused = longest = 0
    for _ in range(COUNT):
        (tmp_path / "config.json").write_text(fuzzed_config(rng, good), encoding="utf-8", errors="surrogatepass")
        begin = time.monotonic()
        try:
            values = read_json(tmp_path / "config.json", "a config")
            config = config_from_huggingface(values, "config.json")
            assert isinstance(config.hidden_act, str)
            assert config.num_params() < 10**14
        except ValueError as error:
            longest = max(longest, len(str(error)))
            refused += 1
        assert time.monotonic() - begin < 5
    assert COUNT / 3 < refused < COUNT
    assert longest < 2000


BERT = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "hidden_act": "gelu",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 3}, r"c\.json: num_attention_heads must divide hidden_size=16; got 3\."),
        ({"num_hidden_layers": 10**6}, r"c\.json: num_hidden_layers must have at most 512 layers; got 1,000,000\."),
        ({"hidden_size": 10**400}, r"hidden_size must have at most 65,536 numbers; got a number of 333 hexadecimal digits"),
        ({"hidden_act": {"class_name": "Dense", "config": {}}}, "hidden_act must be the name of an activation; got {'class_name'"),
        ({"hidden_act": ["gelu"]}, "hidden_act must be the name of an activation"),
        ({"layer_norm_eps": float("inf")}, "layer_norm_eps must be a number of at least 0 and at most 1,000; got inf"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be a number of at least 0 and at most 1,000; got nan"),
        ({"layer_norm_eps": 10**400}, "layer_norm_eps must be a number of at least 0 and at most 1,000; got 1000"),
        ({"initializer_range": float("inf")}, "initializer_range must be a number of at least 0 and at most 1,000; got inf"),
        ({"layer_norm_eps": True}, "layer_norm_eps must be a number"),
        ({"hidden_dropout_prob": 10**400}, "hidden_dropout_prob must be a rate"),
        ({"num_labels": 10**9}, r"num_labels must have at most 1,048,576 labels; got 1,000,000,000"),
        ({"num_labels": -1}, "num_labels must be a whole number of at least 0; got -1"),
        ({"num_labels": True}, "num_labels must be a whole number"),
        ({"id2label": {"0": {"a": 1}}}, "id2label must map numbers to names"),
        ({"problem_type": ["regression"]}, "problem_type must be a string; got"),
        ({"model_type": {}}, "expected a model_type among"),
        ({"vocab_size": "9" * 1000}, "vocab_size must be a whole number of at least 1; got '999"),
    ],
)
def test_an_invalid_value_is_named(change, message):
    with pytest.raises(ValueError, match=message) as error:
        config_from_huggingface({"model_type": "bert", **BERT, **change}, "c.json")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_values_of_googles_config_are_checked_too():
    for change in (
        {"hidden_act": {"a": 1}},
        {"num_attention_heads": 3},
        {"num_hidden_layers": 10**6},
        {"type_vocab_size": 10**400},
    ):
        with pytest.raises(ValueError, match=r"^bert_config\.json: \w+ must"):
            config_from_google({**BERT, **change})


def test_positions_that_start_after_the_table_are_refused():
    with pytest.raises(ValueError, match="position_offset must be below max_position_embeddings=4; got 4"):
        BertConfig(max_position_embeddings=4, position_offset=4)


@pytest.mark.parametrize("layer", ["Embedding-Token", "Encoder-1-FeedForward", "Encoder-1-MultiHeadSelfAttention"])
@pytest.mark.parametrize("value", [None, [], {"class_name": "Lambda"}, 10**400, float("nan"), "evil"])
def test_layers_of_a_keras_2_file_with_absurd_values_are_one_sentence(layer, value):
    norm = {"name": "Embedding-Norm", "epsilon": 1e-12}
    tables = [{"name": f"Embedding-{name}", "input_dim": 9, "output_dim": 8} for name in ("Token", "Segment", "Position")]
    attention = {"name": "Encoder-1-MultiHeadSelfAttention", "head_num": 2, "activation": None}
    forward = {"name": "Encoder-1-FeedForward", "units": 16, "activation": "gelu"}
    layers = [norm, *tables, attention, forward]
    model = {"config": {"layers": [{"config": values} for values in layers]}}
    assert config_from_keras_2(model, "m.h5").hidden_size == 8
    for values in layers:
        if values["name"] == layer:
            values.update({name: value for name in values if name not in ("name", "activation" if value in (None, "evil") else "")})
    with pytest.raises(ValueError, match=r"^m\.h5"):
        config_from_keras_2(model, "m.h5")


@pytest.mark.parametrize("change", [{"num_hidden_layers": 500}, {"vocab_size": 9_000_000, "hidden_size": 65_535}])
def test_a_config_that_is_larger_than_its_file_is_refused_before_anything_is_built(tmp_path, change):
    values = json.loads((GOLDEN / "bert_pretraining" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, **change}))
    (tmp_path / "model.safetensors").write_bytes((GOLDEN / "bert_pretraining" / "model.safetensors").read_bytes())
    begin = time.monotonic()
    with pytest.raises(ValueError, match=r"config\.json describes .*; model\.safetensors has"):
        find_checkpoint(tmp_path)
    assert time.monotonic() - begin < 1


SIZES = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 10,
    "attention_probs_dropout_prob": 0.0,
}
CHANGES = {
    "bert": {"layer_norm_eps": 1e-6},
    "keras_bert": {"attention_act": "gelu_erf", "hidden_dropout_prob": 0.0, "num_tasks": 3, "adapter_size": 4},
    "roberta": {
        "position_offset": 2,
        "pad_token_id": 1,
        "type_vocab_size": 1,
        "hidden_act": "gelu_erf",
        "hidden_dropout_prob": 0.3,
    },
    "distilbert": {"type_vocab_size": 0, "attention_probs_dropout_prob": 0.2},
    "albert": {"embedding_size": 4, "num_hidden_layers": 4, "num_hidden_groups": 2},
}


@pytest.mark.parametrize("name", CHANGES)
def test_layers_say_what_they_were_made_from(name):
    config = BertConfig(**{**SIZES, **CHANGES[name]})
    model = build_model(config)
    assert config_of_layers(find_encoder(model)).encoder() == config.encoder()
    if config.num_hidden_groups is None:
        layers = [{"config": {**layer.get_config()}} for layer in model.layers]
        for layer in layers:  # Keras 2 wrote the word alone
            if "activation" in layer["config"]:
                attention = "Attention" in layer["config"]["name"]
                layer["config"]["activation"] = (config.attention_act or "linear") if attention else config.hidden_act
        assert config_from_keras_2({"config": {"layers": layers}}, "m.h5").encoder() == config.encoder()


def test_a_block_that_is_not_like_berts_is_named_where_no_config_says_so():
    config = ToyConfig(family="gated_toy", **SIZES)
    encoder = find_encoder(build_model(config))
    with pytest.raises(ValueError, match=r"position table and complete encoder blocks; Embedding-Position, .* is missing"):
        config_of_layers(encoder)
    encoder = find_encoder(build_model(BertConfig(**SIZES)))
    encoder.layers["Encoder-2-FeedForward"].gated = True
    with pytest.raises(ValueError, match="must have BERT's layers; Encoder-2-FeedForward has gated=True"):
        config_of_layers(encoder)
