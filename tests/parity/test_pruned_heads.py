"""Heads pruned as transformers 2 to 4 did it are read, and what we write is what they wrote.

transformers 5 has no `prune_heads`; its `prune_linear_layer` is still the one that cuts the heads out of the four projections.
"""

import json

import cases
import numpy as np
import pytest
import torch
import transformers
from helpers.run_model import answers
from safetensors.numpy import load_file
from transformers.pytorch_utils import prune_linear_layer

from keras_bert_rebuild import from_pretrained, save_pretrained
from keras_bert_rebuild.interpret import Head, intervene, prune_heads

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
