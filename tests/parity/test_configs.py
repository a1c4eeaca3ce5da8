"""A config.json here and in transformers, whatever it leaves out, and the heads that it prunes."""

import json

import cases
import numpy as np
import pytest
import torch
import transformers
from helpers.small import answers
from safetensors.numpy import load_file
from transformers.pytorch_utils import prune_linear_layer

from keras_bert_rebuild import from_pretrained, save_pretrained
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.interpret import Head, intervene, prune_heads
from keras_bert_rebuild.pretrained.config_files import HUGGINGFACE_ACTIVATIONS, config_from_huggingface

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
    "pooler_act": "relu",
    "relative_attention": True,
    "pos_att_type": "c2p",
    "norm_rel_ebd": "layer_norm",
    "position_buckets": 8,
    "max_relative_positions": 20,
    "share_att_key": True,
    "position_biased_input": False,
    "conv_kernel_size": 3,
    "conv_act": "relu",
    "legacy": False,
    "clamp_len": 7,
    "mem_len": 9,
    "reuse_len": 8,
    "use_mems_eval": False,
    "use_mems_train": True,
}
# Keys that are given together or not at all.
TOGETHER = {"relative_attention", "pos_att_type", "norm_rel_ebd"}
# What models of transformers read where their config class has no such key.
ABSENT = {
    "cls_dropout": None,
    "embedding_size": None,
    "position_buckets": -1,
    "share_att_key": False,
    "norm_rel_ebd": "none",
    "conv_kernel_size": 0,
    "conv_act": "tanh",
}
# Those of transformers: "new" is the name in GTE's own code.
KNOWN = {family: module for family, module in FAMILIES.items() if family in transformers.CONFIG_MAPPING}
KEYS = [(family, key) for family, module in KNOWN.items() for _, key in module.CONFIG]


def compared(folder, family, values):
    """Our config and theirs from the same file, by the keys of the file."""
    (folder / "config.json").write_text(json.dumps(values))
    theirs, ours = transformers.AutoConfig.from_pretrained(folder), config_from_huggingface(values)
    words = dict(HUGGINGFACE_ACTIVATIONS)
    got = {key: getattr(ours, field) for field, key in FAMILIES[family].CONFIG}
    expected = {key: getattr(theirs, key, ABSENT[key]) if key in ABSENT else getattr(theirs, key) for key in got}
    expected = {key: tuple(value) if isinstance(value, list) else words.get(value, value) for key, value in expected.items()}
    assert got == expected


@pytest.mark.parametrize("family", KNOWN)
def test_an_empty_file_means_the_same(tmp_path, family):
    compared(tmp_path, family, {"model_type": family})


@pytest.mark.parametrize(("family", "key"), KEYS)
def test_a_file_with_one_key_means_the_same(tmp_path, family, key):
    given = TOGETHER if key in TOGETHER else {key}
    compared(
        tmp_path, family, {"model_type": family, **{key: OTHER[field] for field, key in FAMILIES[family].CONFIG if key in given}}
    )


@pytest.mark.parametrize(("family", "key"), KEYS)
def test_a_file_without_one_key_means_the_same(tmp_path, family, key):
    without = TOGETHER if key in TOGETHER else {key}
    said = {other: OTHER[field] for field, other in FAMILIES[family].CONFIG if other not in without}
    if "embedding_size" in said:  # DeBERTa's newer MLM head has no width of its own
        said.pop("legacy", None)
    compared(tmp_path, family, {"model_type": family, **said})


@pytest.mark.parametrize("family", [family for family in KNOWN if family != "xlnet"])  # transformers refuses them for XLNet
def test_the_common_names_of_sizes_mean_the_same(tmp_path, family):
    compared(tmp_path, family, {"model_type": family, "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2})


# Heads pruned as transformers 2 to 4 did it are read, and what we write is what they wrote.


HEADS = {0: [1], 1: [0]}


def pruned(model):
    """A BERT of transformers without some heads, in the layout of `BertAttention.prune_heads` of transformers 4."""
    for block, heads in HEADS.items():
        attention = model.bert.encoder.layer[block].attention
        width = attention.self.attention_head_size
        kept = [head for head in range(attention.self.num_attention_heads) if head not in heads]
        index = torch.tensor([head * width + i for head in kept for i in range(width)])
        for name in ("query", "key", "value"):
            setattr(attention.self, name, prune_linear_layer(getattr(attention.self, name), index))
        attention.output.dense = prune_linear_layer(attention.output.dense, index, dim=1)
        attention.self.num_attention_heads = len(kept)
        attention.self.all_head_size = width * len(kept)
    return model.eval()


@pytest.fixture
def folders(tmp_path):
    """A model of transformers, whole and pruned, and the folders of both as transformers 4 writes them."""
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=40
    )
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(config).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
    model.save_pretrained(tmp_path / "whole")
    pruned(model).save_pretrained(tmp_path / "pruned")
    path = tmp_path / "pruned" / "config.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "pruned_heads": {str(block): heads for block, heads in HEADS.items()}})
    )
    return model, tmp_path


def test_a_pruned_folder_is_read_and_gives_the_outputs_of_the_pruned_model(folders):
    theirs, folder = folders
    ids, segments = cases.make_inputs(theirs)
    ours, whole = from_pretrained(folder / "pruned"), from_pretrained(folder / "whole")
    real = ids != theirs.config.pad_token_id
    expected, got = cases.outputs_of(theirs, ids, segments)[0], answers(ours, ids, segments)[0]
    np.testing.assert_allclose(got[real], expected[real], atol=1e-5)
    with intervene(whole, [Head(block, head) for block, heads in HEADS.items() for head in heads]):
        off = answers(whole, ids, segments)[0]
    np.testing.assert_allclose(off[real], expected[real], atol=1e-5)
    assert ours.config.pruned_heads == ((0, (1,)), (1, (0,)))


def test_what_is_written_is_the_file_that_transformers_4_writes(folders):
    _, folder = folders
    save_pretrained(prune_heads(from_pretrained(folder / "whole"), HEADS), folder / "ours")
    before, after = (load_file(folder / name / "model.safetensors") for name in ("pruned", "ours"))
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert array.tobytes() == after[name].tobytes(), name
    config = json.loads((folder / "ours" / "config.json").read_text())
    assert config["pruned_heads"] == {"0": [1], "1": [0]}
    assert config["num_attention_heads"] == 4


def test_transformers_5_refuses_the_shapes_instead_of_reading_something_else(folders):
    _, folder = folders
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        transformers.BertForMaskedLM.from_pretrained(folder / "pruned")
