"""The encoder of the Transformer against torch's own, `torch.nn.TransformerEncoder`, whose projections have biases."""

import math

import numpy as np
import pytest
import torch
from helpers.small import spread

from keras_bert_rebuild import build_model
from keras_bert_rebuild.families.transformer import TransformerConfig

SIZES = [(16, 2, 24, 3), (12, 4, 5, 1), (20, 1, 64, 2)]  # width, heads, inner, blocks


def config_of(width, heads, inner, blocks, **changes):
    return TransformerConfig(
        vocab_size=23,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        num_hidden_layers=blocks,
        attention_bias=True,
        hidden_dropout_prob=0.0,
        **changes,
    )


def torch_names(config):
    """Name of a parameter of torch's to the paths of ours; queries, keys and values are one array there."""
    names = {}
    for i in range(config.num_hidden_layers):
        ours, theirs = f"Encoder-{i + 1}-", f"layers.{i}."
        attention, dense = f"{ours}MultiHeadSelfAttention", f"{ours}FeedForward"
        for end, weight in (("weight", "kernel"), ("bias", "bias")):
            names[f"{theirs}self_attn.in_proj_{end}"] = [f"{attention}/{part}/{weight}" for part in ("query", "key", "value")]
            names[f"{theirs}self_attn.out_proj.{end}"] = [f"{attention}/output/{weight}"]
            names[f"{theirs}linear1.{end}"] = [f"{dense}/intermediate/{weight}"]
            names[f"{theirs}linear2.{end}"] = [f"{dense}/output/{weight}"]
            norm = {"weight": "gamma", "bias": "beta"}[end]
            names[f"{theirs}norm1.{end}"] = [f"{attention}-Norm/{norm}"]
            names[f"{theirs}norm2.{end}"] = [f"{dense}-Norm/{norm}"]
    return names


def theirs_of(config, weights):
    """Torch's encoder with our weights."""
    layer = torch.nn.TransformerEncoderLayer(
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        dropout=0.0,
        activation="relu",
        layer_norm_eps=config.layer_norm_eps,
        batch_first=True,
        norm_first=False,
    )
    encoder = torch.nn.TransformerEncoder(layer, config.num_hidden_layers, enable_nested_tensor=False)
    arrays = {name: np.concatenate([weights[path].T for path in paths]) for name, paths in torch_names(config).items()}
    encoder.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
    return encoder


def embedded(table, ids, width):
    """The scaled embedding with positions as the tutorial of torch computes them."""
    pairs = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(ids.shape[1])[:, None] * pairs
    positions = torch.stack([angles.sin(), angles.cos()], -1).reshape(ids.shape[1], width)
    return torch.nn.functional.embedding(torch.tensor(ids, dtype=torch.long), table) * math.sqrt(width) + positions


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_hidden_states_and_gradients_equal_those_of_torch(sizes, rng):
    config = config_of(*sizes)
    model = spread(build_model(config, output_layer_num=config.num_hidden_layers), rng)
    variables = {variable.path: variable for variable in model.weights}
    weights = {path: variable.value.detach().cpu().numpy() for path, variable in variables.items()}
    ids = rng.integers(1, 23, (3, 13)).astype("int32")
    ids[1, 9:], ids[2, 4:] = 0, 0
    theirs = theirs_of(config, weights).train()  # without dropout; in evaluation torch takes another path
    table = torch.tensor(weights["Embedding-Token/embeddings"], requires_grad=True)
    x, states = embedded(table, ids, config.hidden_size), []
    for layer in theirs.layers:
        x = layer(x, src_key_padding_mask=torch.tensor(ids == 0))
        states.append(x)
    real = torch.tensor(ids != 0)
    answers = model(torch.tensor(ids), training=True).cpu().split(config.hidden_size, -1)
    for ours, expected in zip(answers, states, strict=True):
        np.testing.assert_allclose(ours[real].detach(), expected[real].detach(), atol=1e-5)
    weight = torch.tensor(rng.normal(size=states[-1].shape), dtype=torch.float32) * real[..., None]
    (states[-1] * weight).sum().backward()
    (answers[-1] * weight).sum().backward()
    grads = {path: variable.value.grad.cpu().numpy() for path, variable in variables.items()}
    np.testing.assert_allclose(grads["Embedding-Token/embeddings"], table.grad, atol=1e-4)
    parameters = dict(theirs.named_parameters())
    for name, paths in torch_names(config).items():
        joined = np.concatenate([grads[path].T for path in paths])
        np.testing.assert_allclose(joined, parameters[name].grad, atol=1e-4, err_msg=name)
