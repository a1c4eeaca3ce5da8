"""XLNet with clamped distances, odd sizes, padding on both sides, and the gradients of a step."""

import cases
import keras
import numpy as np
import pytest
import torch
import transformers
from agreement import assert_gradients_agree, assert_states_and_maps_agree, step
from helpers.run_model import answers

from keras_bert_rebuild import from_pretrained, save_pretrained
from keras_bert_rebuild.models.permutation_model import run_with_memories

# Distances that end before the text and after it, other heads and depths, other activations, every kind of memory.
SETTINGS = (
    {"clamp_len": 1},
    {"clamp_len": 5},
    {"clamp_len": 300},
    {"n_layer": 1},
    {"n_head": 1, "d_inner": 7},
    {"n_head": 6, "ff_activation": "relu"},
    {"d_model": 6, "ff_activation": "silu"},
    {"layer_norm_eps": 0.1, "pad_token_id": 0},
    {"mem_len": None, "reuse_len": 3, "use_mems_eval": False},
)

settings = pytest.mark.parametrize("changes", SETTINGS, ids=lambda changes: "-".join(changes))


def right_padded(rows, real):
    """The rows with their padding behind."""
    return np.stack([np.concatenate([row[own], row[~own]]) for row, own in zip(rows, real, strict=True)])


@settings
@pytest.mark.parametrize("side", ["left", "right"])
def test_every_hidden_state_and_map_agrees(changes, side, tmp_path):
    theirs = cases.random_model("XLNet", "Model", {**cases.XLNET, **changes})
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    if side == "right":
        ids, segments, real = (right_padded(rows, real) for rows in (ids, segments, real))
    assert_states_and_maps_agree(theirs, ours, ids, segments)


def test_segments_that_are_not_given_are_those_of_one_text(tmp_path):
    theirs = cases.make_model("xlnet")
    theirs.save_pretrained(tmp_path)
    ids, _ = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=torch.tensor(real.astype("int64"))).last_hidden_state.numpy()
    got = answers(from_pretrained(tmp_path), ids, np.zeros_like(ids))[0]
    np.testing.assert_allclose(got[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("config", [cases.XLNET, cases.XLNET_ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("kind", ["LMHeadModel", "ForSequenceClassification", "ForTokenClassification"])
def test_gradients_of_a_step_agree(kind, config, tmp_path):
    rates = {"dropout": 0.0, "summary_last_dropout": 0.0}
    theirs = cases.random_model("XLNet", kind, {**config, **rates, "num_labels": 3})
    theirs.save_pretrained(tmp_path / "weights")
    ours = from_pretrained(tmp_path / "weights")
    ids, segments = cases.make_inputs(theirs)
    step(theirs, ours, kind, ids, segments)
    assert_gradients_agree(theirs, ours, tmp_path / "gradients", without={"transformer.mask_emb"})


def test_a_folder_of_ours_scores_tokens_in_transformers(tmp_path):
    theirs = cases.make_model("xlnet_lm")
    theirs.save_pretrained(tmp_path / "theirs")
    ours = from_pretrained(tmp_path / "theirs")
    keras.utils.set_random_seed(2)
    for variable in ours.weights:
        variable.assign(variable + keras.random.normal(variable.shape, stddev=0.1))
    save_pretrained(ours, tmp_path / "ours")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    ids, segments = cases.make_inputs(again)
    real = ids != again.config.pad_token_id
    (expected,), (got,) = cases.outputs_of(again, ids, segments), answers(ours, ids, segments)
    np.testing.assert_allclose(got[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("heads", ["Model", "LMHeadModel"])
@pytest.mark.parametrize(
    "changes", [{"mem_len": None}, {"mem_len": 4}, {"mem_len": 30, "reuse_len": 5}, {"mem_len": 12, "clamp_len": 6}]
)
def test_memories_over_three_segments_agree(changes, heads, tmp_path):
    theirs = cases.random_model("XLNet", heads, {**cases.XLNET, **changes})
    theirs.save_pretrained(tmp_path)
    ours, encoder = from_pretrained(tmp_path), theirs if heads == "Model" else theirs.transformer
    ids, segments = cases.make_inputs(theirs)
    known, expected = None, None
    for length in (17, 9, 1):
        part, kind = ids[:, -length:], segments[:, -length:]
        real = part != theirs.config.pad_token_id
        with torch.no_grad():
            given = {"attention_mask": torch.tensor(real.astype("int64")), "token_type_ids": torch.tensor(kind)}
            expected = encoder(torch.tensor(part), **given, mems=None if expected is None else expected.mems, use_mems=True)
        by_name = {"Input-Token": part, "Input-Segment": kind, "Input-Masked": np.ones_like(part)}
        got, known = run_with_memories(ours, {tensor.name: by_name[tensor.name] for tensor in ours.inputs}, known)
        np.testing.assert_allclose(got.detach().numpy()[real], expected.last_hidden_state.numpy()[real], atol=1e-5)
        for memory, theirs_of in zip(known, expected.mems, strict=True):
            assert memory.shape == theirs_of.transpose(0, 1).shape
            np.testing.assert_allclose(memory[0], theirs_of[:, 0], atol=1e-5)  # of the row without padding
        # A token of padding also attends to itself in transformers, and later segments attend to it.
        known = [memory.transpose(0, 1) for memory in expected.mems]
