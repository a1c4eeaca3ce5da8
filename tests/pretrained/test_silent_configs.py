"""The meaning of a config.json without some keys: the defaults of transformers' config classes, which tests/parity compares."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface, config_to_huggingface

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
