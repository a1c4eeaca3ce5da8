"""ModernBERT with windows of every width, left padding, both spellings of its config, and the gradients of a step."""

import json

import cases
import keras
import numpy as np
import pytest
import transformers
from agreement import assert_gradients_agree, assert_states_and_maps_agree, step
from helpers.small import answers

from keras_bert_rebuild import from_pretrained, save_pretrained
from keras_bert_rebuild.kernels import bands

# Windows shorter and longer than the 17 tokens, odd ones, every layer global, unusual thetas and heads.
SETTINGS = (
    {"local_attention": 1},
    {"local_attention": 2},
    {"local_attention": 7},
    {"local_attention": 300},
    {"num_hidden_layers": 1},
    {"layer_types": ["full_attention"] * 4},
    {"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]},
    {"num_attention_heads": 1},
    {"num_attention_heads": 6, "intermediate_size": 7},
    {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 3.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e6},
        }
    },
    {"norm_bias": True},
    {"attention_bias": True, "hidden_activation": "relu"},
    {"mlp_bias": True, "norm_eps": 0.1},
)

settings = pytest.mark.parametrize("changes", SETTINGS, ids=lambda changes: "-".join(changes))


def left_padded(ids):
    """The rows with their padding in front."""
    return np.stack([np.concatenate([row[row == 0], row[row != 0]]) for row in ids])


@pytest.fixture(params=[None, 0], ids=["all pairs", "bands"])
def form(request, monkeypatch):
    """Both forms of attention within a window, whatever the length."""
    if request.param is not None:
        monkeypatch.setattr(bands, "WINDOWS", request.param)


@settings
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.usefixtures("form")
def test_every_hidden_state_and_map_agrees(changes, side, tmp_path):
    theirs = cases.random_model("ModernBert", "Model", {**cases.MODERN, **changes})
    theirs.save_pretrained(tmp_path)
    theirs.set_attn_implementation("eager")
    ours = from_pretrained(tmp_path)
    ids, _ = cases.make_inputs(theirs)
    ids = left_padded(ids) if side == "left" else ids
    assert_states_and_maps_agree(theirs, ours, ids, ids)


@pytest.mark.parametrize("config", [cases.MODERN, cases.ODD_MODERN], ids=["cls", "mean"])
@pytest.mark.parametrize("kind", ["ForSequenceClassification", "ForMultipleChoice"])
def test_heads_for_texts_agree_with_padding_on_the_left(kind, config, tmp_path):
    theirs = cases.random_model("ModernBert", kind, config)
    theirs.save_pretrained(tmp_path)
    ids = left_padded(cases.make_inputs(theirs)[0])
    (expected,), (got,) = cases.outputs_of(theirs, ids, ids), answers(from_pretrained(tmp_path), ids, ids)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@settings
def test_the_spelling_of_transformers_4_gives_the_same_model(changes, tmp_path):
    theirs = cases.random_model("ModernBert", "ForMaskedLM", {**cases.MODERN, **changes})
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    new = from_pretrained(tmp_path)
    if new.config.layer_types is not None:
        pytest.skip("transformers 4 has no such layers")
    rotary = values.pop("rope_parameters")
    del values["layer_types"]
    values |= {
        "global_attn_every_n_layers": new.config.global_attn_every_n_layers,
        "global_rope_theta": rotary["full_attention"]["rope_theta"],
        "local_rope_theta": rotary["sliding_attention"]["rope_theta"],
    }
    path.write_text(json.dumps(values))
    old = from_pretrained(tmp_path)
    assert old.config == new.config
    ids, _ = cases.make_inputs(theirs)
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    (expected,), (got,) = cases.outputs_of(again, ids, ids), answers(old, ids, ids)
    np.testing.assert_allclose(got[ids != 0], expected[ids != 0], atol=1e-5)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("kind", ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
@pytest.mark.usefixtures("form")
def test_gradients_of_a_step_agree(kind, odd, tmp_path):
    theirs = cases.random_model("ModernBert", kind, {**(cases.ODD_MODERN if odd else cases.MODERN), "num_labels": 3})
    theirs.save_pretrained(tmp_path / "weights")
    ours = from_pretrained(tmp_path / "weights")
    ids, _ = cases.make_inputs(theirs)
    step(theirs, ours, kind, ids, ids)
    assert_gradients_agree(theirs, ours, tmp_path / "gradients")


def test_a_folder_of_ours_fills_masks_in_transformers(tmp_path):
    theirs = cases.make_model("modernbert_masked_lm_odd")
    theirs.save_pretrained(tmp_path / "theirs")
    ours = from_pretrained(tmp_path / "theirs")
    keras.utils.set_random_seed(2)
    for variable in ours.weights:
        variable.assign(variable + keras.random.normal(variable.shape, stddev=0.1))
    save_pretrained(ours, tmp_path / "ours")
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours").eval()
    ids, _ = cases.make_inputs(again)
    (expected,), (got,) = cases.outputs_of(again, ids, ids), answers(ours, ids, ids)
    np.testing.assert_allclose(got[ids != 0], expected[ids != 0], atol=1e-5)
