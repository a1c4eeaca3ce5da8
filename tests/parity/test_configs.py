"""A config.json here and in transformers, whatever it leaves out."""

import json

import pytest
import transformers

from keras_bert_rebuild.families import FAMILIES, activations
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface

# A value for every field that is no family's default.
OTHER = {
    "vocab_size": 61,
    "hidden_size": 192,  # divisible by the heads of every family
    "embedding_size": 9,
    "embedding_width": 9,
    "num_hidden_layers": 4,
    "num_hidden_groups": 2,
    "num_attention_heads": 2,
    "intermediate_size": 33,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.31,
    "attention_probs_dropout_prob": 0.32,
    "classifier_dropout": 0.33,
    "max_position_embeddings": 77,
    "type_vocab_size": 3,
    "initializer_range": 0.04,
    "layer_norm_eps": 1e-6,
    "pad_token_id": 5,
    "mlm_act": "relu",
    "mlp_dropout": 0.34,
    "classifier_pooling": "mean",
    "norm_bias": True,
    "attention_bias": True,
    "mlp_bias": True,
    "classifier_bias": True,
    "decoder_bias": False,
    "local_attention": 12,
}
KEYS = [(family, key) for family, module in FAMILIES.items() for _, key in module.CONFIG]


def compared(folder, family, values):
    """Our config and theirs from the same file, by the keys of the file."""
    (folder / "config.json").write_text(json.dumps(values))
    theirs, ours = transformers.AutoConfig.from_pretrained(folder), config_from_huggingface(values)
    words = dict(activations.HUGGINGFACE)
    rows = [(key, getattr(ours, field), getattr(theirs, key)) for field, key in FAMILIES[family].CONFIG]
    assert [(key, got) for key, got, _ in rows] == [(key, words.get(expected, expected)) for key, _, expected in rows]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_empty_file_means_the_same(tmp_path, family):
    compared(tmp_path, family, {"model_type": family})


@pytest.mark.parametrize(("family", "key"), KEYS)
def test_a_file_with_one_key_means_the_same(tmp_path, family, key):
    field = {key: field for field, key in FAMILIES[family].CONFIG}[key]
    compared(tmp_path, family, {"model_type": family, key: OTHER[field]})


@pytest.mark.parametrize(("family", "key"), KEYS)
def test_a_file_without_one_key_means_the_same(tmp_path, family, key):
    said = {other: OTHER[field] for field, other in FAMILIES[family].CONFIG if other != key}
    compared(tmp_path, family, {"model_type": family, **said})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_common_names_of_sizes_mean_the_same(tmp_path, family):
    compared(tmp_path, family, {"model_type": family, "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2})
