"""Untrusted configs: a model is described, or one sentence says why not, before anything is built."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.exhaustive import EXHAUSTIVE
from hostile.configs import fuzzed_config

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, read_json
from keras_bert_rebuild.pretrained.config_of_layers import config_from_keras_2
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint

COUNT = 2500 if EXHAUSTIVE else 250
GOLDEN = Path(__file__).parents[1] / "golden"
FAMILIES = ("bert_classification", "roberta_classification", "distilbert_classification", "albert_groups", "electra_discriminator")


@pytest.mark.parametrize("folder", FAMILIES)
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
