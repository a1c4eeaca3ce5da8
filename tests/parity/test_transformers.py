"""Outputs, dropout and gradients of families are those of transformers and torch."""

import math

import cases
import keras
import numpy as np
import pytest
import torch
import transformers
from agreement import assert_gradients_agree, step
from helpers.small import answers, spread
from safetensors.numpy import load_file

from keras_bert_rebuild import build_model, from_pretrained, save_pretrained
from keras_bert_rebuild.families.transformer import TransformerConfig


@pytest.fixture(params=cases.CASES)
def theirs(request):
    return cases.make_model(request.param)


def test_outputs_agree(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    ours = from_pretrained(tmp_path)
    real = ids != theirs.config.pad_token_id
    for expected, got in zip(cases.outputs_of(theirs, ids, segments), answers(ours, ids, segments), strict=True):
        if expected.shape[:2] == ids.shape:
            expected, got = expected[real], got[real]
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_written_files_equal_the_files_that_were_read(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "theirs")
    save_pretrained(from_pretrained(tmp_path / "theirs"), tmp_path / "ours")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours"))
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert array.dtype == after[name].dtype
        assert array.tobytes() == after[name].tobytes(), name


def test_transformers_reads_what_is_written(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "theirs")
    save_pretrained(from_pretrained(tmp_path / "theirs"), tmp_path / "ours")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "ours")
    assert config.architectures == [type(theirs).__name__]
    again, info = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids, segments = cases.make_inputs(theirs)
    for expected, got in zip(cases.outputs_of(theirs, ids, segments), cases.outputs_of(again.eval(), ids, segments), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_shards_and_pickles_hold_the_same(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", max_shard_size=3000)
    (tmp_path / "bin").mkdir()
    theirs.config.save_pretrained(tmp_path / "bin")
    torch.save(theirs.state_dict(), tmp_path / "bin" / "pytorch_model.bin")
    one, *others = (from_pretrained(tmp_path / folder) for folder in ("one", "many", "bin"))
    for other in others:
        for a, b in zip(one.weights, other.weights, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


# In training every family drops the same numbers as transformers: with dropout that is the same function of both, logits agree.


RATES = {
    "DistilBert": {"dropout": 0.0, "attention_dropout": 0.2, "seq_classif_dropout": 0.5},
    "Albert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2, "classifier_dropout_prob": 0.5},
    "DebertaV2": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2, "cls_dropout": 0.5},
    "ModernBert": {"embedding_dropout": 0.3, "attention_dropout": 0.2, "mlp_dropout": 0.4, "classifier_dropout": 0.5},
}
OF_BERT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2, "classifier_dropout": 0.5}
KINDS = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
LEFT_OUT = {("DistilBert", KINDS[-1]), ("DebertaV2", KINDS[-1]), *(("XLNet", kind) for kind in KINDS)}
PAIRS = [(family, kind) for family in cases.FAMILIES for kind in KINDS if (family, kind) not in LEFT_OUT]


def drop(x, rate):
    """Every third feature, or key of probabilities."""
    return x * (torch.arange(x.shape[-1]) % 3 != 0) / (1 - rate)


@pytest.mark.parametrize(("family", "kind"), PAIRS)
def test_the_same_numbers_are_dropped(family, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(
        torch.nn.functional, "dropout", lambda x, p=0.5, training=True, inplace=False: drop(x, p) if training and p else x
    )
    monkeypatch.setattr(keras.random, "dropout", lambda x, rate, noise_shape=None, seed=None: drop(x, rate))
    theirs = cases.random_model(family, kind, {**cases.FAMILIES[family], **RATES.get(family, OF_BERT), "num_labels": 3})
    theirs.set_attn_implementation("eager")
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    theirs.train()
    (expected,) = cases.outputs_of(theirs, ids, segments)
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": np.ones_like(ids)}
    inputs = [given[tensor.name] for tensor in ours.inputs]
    got = ours(inputs if len(inputs) > 1 else inputs[0], training=True).detach().numpy()
    chosen = real if expected.shape[:2] == ids.shape else slice(None)
    np.testing.assert_allclose(got[chosen], expected[chosen], atol=1e-5)
    ours = ours(inputs if len(inputs) > 1 else inputs[0], training=False).detach().numpy()
    assert np.abs(ours[chosen] - got[chosen]).max() > 1e-3


# DeBERTa: the gradient of every weight in a training step, the table of distances among them, is that of transformers.


# Shared and own keys of distances, one term and both, buckets and none, a convolution, added positions, both MLM heads.
CONFIGS = {
    "v3": cases.DEBERTA,
    "xlarge": {**cases.DEBERTA_ODD, "hidden_act": "gelu"},
    "no buckets": cases.DEBERTA_PLAIN,
    "new head": {**cases.DEBERTA, "legacy": False, "pos_att_type": ["c2p"], "share_att_key": False},
    "position to content": {**cases.DEBERTA_ODD, "pos_att_type": ["p2c"], "conv_act": "tanh"},
    "far": {**cases.DEBERTA, "position_buckets": 4, "max_relative_positions": 300, "num_hidden_layers": 3},
}
STEPS = [(name, "ForMaskedLM", side) for name in CONFIGS for side in ("right", "left")]
STEPS += [("xlarge", kind, "right") for kind in KINDS[1:]]


@pytest.mark.parametrize(("name", "kind", "side"), STEPS)
def test_gradients_of_a_step_agree(name, kind, side, tmp_path):
    theirs = cases.random_model("DebertaV2", kind, {**CONFIGS[name], "num_labels": 3})
    theirs.save_pretrained(tmp_path / "weights")
    ours = from_pretrained(tmp_path / "weights")
    ids, segments = cases.make_inputs(theirs)
    if side == "left":
        ids, segments = ids[:, ::-1].copy(), segments[:, ::-1].copy()
    step(theirs, ours, kind, ids, segments)
    largest = assert_gradients_agree(theirs, ours, tmp_path / "gradients", least=0.1)
    assert "deberta.encoder.rel_embeddings.weight" in largest
    # The softmax does not depend on what is added to all scores of a query, such as the bias of keys and, with "c2p" alone, that of
    # the norm of distances.
    vanishing = [name for name, value in largest.items() if value <= 1e-4]
    assert all(name.endswith(("key_proj.bias", "encoder.LayerNorm.bias")) for name in vanishing), vanishing


# The encoder of the Transformer against torch's own, `torch.nn.TransformerEncoder`, whose projections have biases.


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
