"""Nomic BERT and GTE: every hidden state and map, both spellings of config and names, and the gradients of a step."""

import json
import re

import cases
import numpy as np
import pytest
import torch
import transformers
from agreement import assert_gradients_agree, assert_states_and_maps_agree, step
from helpers.small import answers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st

from keras_bert_rebuild import from_pretrained, load_task, save_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface

FAMILIES = {"NomicBert": cases.NOMIC, "Gte": cases.GTE}
SETTINGS = (
    {},
    {"num_attention_heads": 1, "hidden_act": "relu"},
    {"num_attention_heads": 6, "intermediate_size": 7, "layer_norm_eps": 0.1},
    {"num_hidden_layers": 1, "type_vocab_size": 3},
    cases.SCALED,
)

families = pytest.mark.parametrize("family", FAMILIES)


@families
@pytest.mark.parametrize("changes", SETTINGS, ids=lambda changes: "-".join(changes))
@pytest.mark.parametrize("side", ["right", "left"])
def test_every_hidden_state_and_map_agrees(family, changes, side, tmp_path):
    theirs = cases.random_model(family, "Model", {**FAMILIES[family], **changes})
    theirs.save_pretrained(tmp_path)
    theirs.set_attn_implementation("eager")
    ours = from_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    if side == "left":
        pad = theirs.config.pad_token_id
        ids = np.stack([np.concatenate([row[row == pad], row[row != pad]]) for row in ids])
    assert_states_and_maps_agree(theirs, ours, ids, segments)


@families
@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
def test_the_names_of_transformers_in_memory_are_read(family, kind, tmp_path):
    theirs = cases.random_model(family, kind, FAMILIES[family])
    theirs.save_pretrained(tmp_path, save_original_format=False)
    assert any("layers.0.self_attn.q_proj.weight" in name for name in load_file(tmp_path / "model.safetensors"))
    ours = from_pretrained(tmp_path)
    assert not ours.load_report.unused
    ids, segments = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    for expected, got in zip(cases.outputs_of(theirs, ids, segments), answers(ours, ids, segments), strict=True):
        np.testing.assert_allclose(*((got[real], expected[real]) if expected.ndim == 3 else (got, expected)), atol=1e-5)


def renamed(folder, pattern, replacement):
    """The folder with other names of weights."""
    weights = load_file(folder / "model.safetensors")
    save_file({re.sub(pattern, replacement, name): weight for name, weight in weights.items()}, folder / "model.safetensors")


NOMICS_OWN = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "attn_pdrop": "attention_probs_dropout_prob",
    "resid_pdrop": "hidden_dropout_prob",
}


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForSequenceClassification"])
def test_a_folder_in_the_spelling_of_nomics_code_is_the_same_model(kind, tmp_path):
    theirs = cases.random_model("NomicBert", kind, {**cases.NOMIC, "hidden_act": "gelu"})
    theirs.save_pretrained(tmp_path)
    renamed(tmp_path, r"^nomic_bert\.", "bert.")
    renamed(tmp_path, r"^cls\.predictions\.bias$", "cls.predictions.decoder.bias")
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    values |= {key: values.pop(theirs) for key, theirs in NOMICS_OWN.items()}
    values |= {"rotary_emb_base": values.pop("rope_parameters")["rope_theta"], "rotary_emb_fraction": 1.0}
    values |= dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm"), False)
    del values["head_dim"], values["hidden_act"]
    values |= {"activation_function": "geglu", "rotary_scaling_factor": 2, "max_trained_positions": 20}
    path.write_text(json.dumps(values))
    ours = from_pretrained(tmp_path)
    assert ours.config.max_length == 20  # further positions would be scaled
    assert not ours.load_report.unused
    ids, segments = cases.make_inputs(theirs)
    for expected, got in zip(cases.outputs_of(theirs, ids, segments), answers(ours, ids, segments), strict=True):
        real = ids != 0 if expected.ndim == 3 else slice(None)
        np.testing.assert_allclose(got[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
def test_a_folder_in_the_spelling_of_gtes_code_is_the_same_model(kind, tmp_path):
    theta, factor, width = 20000.0, 8.0, cases.GTE["hidden_size"] // cases.GTE["num_attention_heads"]
    # The type "ntk" in the terms of transformers.
    rotary = {"rope_type": "linear", "rope_theta": theta * factor, "factor": factor ** (2 / width)}
    theirs = cases.random_model("Gte", kind, {**cases.GTE, "rope_parameters": rotary})
    theirs.save_pretrained(tmp_path / "new")
    renamed(tmp_path / "new", r"^gte\.", "new.")
    path = tmp_path / "new" / "config.json"
    values = json.loads(path.read_text())
    del values["rope_parameters"]
    values |= {"model_type": "new", "architectures": [values["architectures"][0].replace("Gte", "New")]}
    values |= {"rope_theta": theta, "rope_scaling": {"type": "ntk", "factor": factor}, "position_embedding_type": "rope"}
    values |= {"pack_qkv": True, "logn_attention_scale": False, "layer_norm_type": "layer_norm", "unpad_inputs": False}
    path.write_text(json.dumps(values))
    ours = from_pretrained(tmp_path / "new")
    assert not ours.load_report.unused
    save_pretrained(ours, tmp_path / "again")
    again = getattr(transformers, f"Gte{kind}").from_pretrained(tmp_path / "again").eval()
    ids, segments = cases.make_inputs(theirs)
    expected, known, got = (
        cases.outputs_of(theirs, ids, segments),
        cases.outputs_of(again, ids, segments),
        answers(ours, ids, segments),
    )
    for one, other, mine in zip(expected, known, got, strict=True):
        real = ids != 1 if one.ndim == 3 else slice(None)
        np.testing.assert_allclose(other[real], one[real], atol=1e-5)
        np.testing.assert_allclose(mine[real], one[real], atol=1e-5)


@families
@pytest.mark.parametrize("kind", ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
def test_gradients_of_a_step_agree(family, kind, tmp_path):
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs = cases.random_model(family, kind, {**FAMILIES[family], **rates, "num_labels": 3})
    theirs.save_pretrained(tmp_path / "weights")
    ours = from_pretrained(tmp_path / "weights")
    ids, segments = cases.make_inputs(theirs)
    step(theirs, ours, kind, ids, segments)
    assert_gradients_agree(theirs, ours, tmp_path / "gradients")


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{letter}" for letter in "abcdefgh"), "search", "query", ":", "##s"]
TEXTS = ["worda wordb", "WORDC", "wordd " * 30, "worde wordfs wordg", "wordi wordzz"]


def wordpiece(folder):
    """The tokenizer of Nomic's models."""
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    return transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=True, model_max_length=24)


def unigram(folder):
    """That of GTE's multilingual model."""
    letters = [(letter, -4.0) for letter in sorted({*"".join(TEXTS), "▁", ":"} - {" "})]
    front = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [*front, ("▁word", -1.0), ("▁worda", -1.5), *letters, ("<mask>", 0.0)]
    return transformers.XLMRobertaTokenizer(vocab=pieces, model_max_length=24)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize(("family", "tokenizer"), [("NomicBert", wordpiece), ("Gte", unigram)])
def test_folders_of_sentence_transformers_give_their_vectors(family, tokenizer, pooling, tmp_path):
    encoder = tmp_path / "encoder"
    cases.random_model(family, "Model", FAMILIES[family]).save_pretrained(encoder)
    tokenizer(encoder).save_pretrained(encoder)
    torch.manual_seed(3)
    modules = [st.Transformer(str(encoder)), st.Pooling(24, pooling_mode=pooling), st.Normalize()]
    prompts = {"query": "search query: "} if family == "NomicBert" else None
    theirs = SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name="query" if prompts else None, device="cpu")
    theirs.save(str(tmp_path / "sentences"))
    expected = theirs.encode(TEXTS)
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    output = tmp_path / "vectors.npy"
    assert main(["embed", str(tmp_path / "texts.txt"), "--model", str(tmp_path / "sentences"), "--output", str(output)]) == 0
    np.testing.assert_allclose(np.load(output), expected, atol=1e-5)
    if pooling == "mean" and prompts is None:
        task, short = load_task(tmp_path / "sentences", kind="embedding"), [0, 1, 3, 4]  # it reads the whole of long texts
        np.testing.assert_allclose(task([TEXTS[i] for i in short]), expected[short], atol=1e-5)


LINEAR = {"rope_type": "linear", "factor": 2.0}


@pytest.mark.parametrize("family", ["gte", "nomic_bert"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rope_theta": 500.0},
        {"rope_theta": 500.0, "rope_scaling": LINEAR},
        {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 500.0, "rope_scaling": {**LINEAR, "rope_theta": 9.0}},
        {"rope_theta": 500.0, "rope_parameters": {"rope_theta": 9.0}},
        {"rope_parameters": LINEAR},
        {"rope_parameters": {"rope_theta": 3.0, "partial_rotary_factor": 1.0}},
    ],
)
def test_rotary_positions_mean_the_same_wherever_the_file_says_them(family, given, tmp_path):
    values = {"model_type": family, **given}
    (tmp_path / "config.json").write_text(json.dumps(values))
    expected = transformers.AutoConfig.from_pretrained(tmp_path).rope_parameters
    got = config_from_huggingface(values)
    assert (got.rope_theta, got.rope_factor) == (expected["rope_theta"], expected.get("factor", 1.0))
