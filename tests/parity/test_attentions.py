"""Attention maps and hidden states are those of transformers."""

import cases
import numpy as np
import pytest
import torch
import transformers
from helpers import minilm

from keras_bert_rebuild import attention_maps, from_pretrained, load_tokenizer


def compare(theirs, ours, ids, segments, atol=1e-4):
    """Compare maps and hidden states of real tokens, layer by layer; the number of layers."""
    theirs.set_attn_implementation("eager")
    real = ids != theirs.config.pad_token_id
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(real.astype("int64"))}
    names = [tensor.name for tensor in ours.inputs]
    if "Input-Segment" in names:
        inputs["token_type_ids"] = torch.tensor(segments)
    with torch.no_grad():
        answer = theirs(**inputs, output_attentions=True, output_hidden_states=True)
    given = {"Input-Token": ids, "Input-Segment": segments}
    maps = attention_maps(ours, {name: given[name] for name in names if name in given}, vectors=True)
    pairs = real[:, None, :, None] & real[:, None, None, :]
    for layer, expected in enumerate(answer.attentions):
        got = np.where(pairs, maps.probabilities[layer], 0)
        np.testing.assert_allclose(got, np.where(pairs, expected.numpy(), 0), atol=1e-5)
        np.testing.assert_allclose(maps.inputs[layer][real], answer.hidden_states[layer].numpy()[real], atol=atol)
        outputs = maps.outputs[layer]
        if layer == len(answer.attentions) - 1 and "Encoder-Norm" in {each.name for each in ours.layers}:
            outputs = ours.get_layer("Encoder-Norm")(torch.tensor(outputs)).detach().numpy()
        np.testing.assert_allclose(outputs[real], answer.hidden_states[layer + 1].numpy()[real], atol=atol)
    return len(answer.attentions)


@pytest.mark.parametrize("case", cases.CASES)
def test_maps_of_every_family_agree(case, tmp_path):
    theirs = cases.make_model(case)
    theirs.save_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    assert compare(theirs, from_pretrained(tmp_path), ids, segments) == theirs.config.num_hidden_layers


def test_maps_of_a_trained_bert_agree():
    texts, pairs = (
        ["The harbour was quiet before the boats went out.", "Nobody"],
        ["He slept.", "had slept in the harbour that night."],
    )
    encoding = load_tokenizer(minilm.FOLDER).encode_batch(texts, pairs, pad_to="longest")
    theirs = transformers.AutoModel.from_pretrained(minilm.FOLDER).eval()
    assert compare(theirs, from_pretrained(minilm.FOLDER), encoding.ids.astype("int64"), encoding.segments.astype("int64")) == 6
