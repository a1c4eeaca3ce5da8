"""Attention maps and hidden states are those of transformers, attributions those of captum, the arrays of the page bertviz's."""

import json
import re

import cases
import numpy as np
import pytest
import torch
import transformers
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients
from helpers import minilm
from helpers.small_tasks import TOKENIZER, small_task
from transformers import AutoModelForSequenceClassification

from keras_bert_rebuild import TextClassifier, attention_maps, from_pretrained, load_tokenizer, show_attention
from keras_bert_rebuild.explain.page_arrays import unpack
from keras_bert_rebuild.interpret import attribute


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


# Attributions are those of captum on the transformers model with the same weights.


TEXT, PAIR = "the cat sat on the mat .", "anna likes the red dog"
# Name of a rule here and in captum.
RULES = {
    "gauss_legendre": "gausslegendre",
    "middle": "riemann_middle",
    "left": "riemann_left",
    "right": "riemann_right",
    "trapezoid": "riemann_trapezoid",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A classifier here and in transformers, and the inputs of the pair."""
    task = small_task(TextClassifier, labels=("cat", "dog"))
    path = tmp_path_factory.mktemp("classifier") / "model"
    task.save(path)
    theirs = AutoModelForSequenceClassification.from_pretrained(path, attn_implementation="eager").eval()
    encoded = TOKENIZER.encode_batch([TEXT], [PAIR])
    ids, segments = (torch.tensor(np.asarray(rows[0]), dtype=torch.long)[None] for rows in (encoded.ids, encoded.segments))
    forward = lambda ids, segments: theirs(input_ids=ids, token_type_ids=segments).logits[:, 1]  # noqa: E731
    return task, theirs, forward, ids, segments


def tokens_of(found):
    return np.array([token.score for token in found.tokens])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("baseline", ["mask", "pad"])
def test_integrated_gradients_are_those_of_captum(both, rule, baseline):
    task, theirs, forward, ids, segments = both
    (found,) = attribute(task, [TEXT], [PAIR], target="dog", steps=24, rule=rule, baseline=baseline)
    absent = {"mask": TOKENIZER.mask_id, "pad": TOKENIZER.pad_id}[baseline]
    special = (ids == TOKENIZER.cls_id) | (ids == TOKENIZER.sep_id)
    method = LayerIntegratedGradients(forward, theirs.bert.embeddings.word_embeddings)
    expected, gap = method.attribute(
        ids,
        baselines=torch.where(special, ids, absent),
        additional_forward_args=(segments,),
        n_steps=24,
        method=RULES[rule],
        return_convergence_delta=True,
    )
    expected = expected.sum(-1)[0].detach().numpy()
    if rule == "trapezoid":  # captum's 24 weights sum to 23/24
        expected = expected * 24 / 23
    else:
        assert found.gap == pytest.approx(float(gap), abs=1e-4)
    np.testing.assert_allclose(tokens_of(found), expected, atol=1e-4)


def test_gradient_times_input_is_that_of_captum(both):
    task, theirs, forward, ids, segments = both
    (found,) = attribute(task, [TEXT], [PAIR], target="dog", method="gradient_x_input")
    method = LayerGradientXActivation(forward, theirs.bert.embeddings.word_embeddings)
    expected = method.attribute(ids, additional_forward_args=(segments,))
    np.testing.assert_allclose(tokens_of(found), expected.sum(-1)[0].detach().numpy(), atol=1e-4)


def test_rollout_is_the_product_of_the_attentions_of_transformers(both):
    task, theirs, _, ids, segments = both
    (found,) = attribute(task, [TEXT], [PAIR], target="dog", method="rollout")
    product = np.eye(ids.shape[1])
    for attention in theirs(input_ids=ids, token_type_ids=segments, output_attentions=True).attentions:
        product = (0.5 * attention[0].mean(0).detach().numpy() + 0.5 * np.eye(ids.shape[1])) @ product
    np.testing.assert_allclose(tokens_of(found), product[0], atol=1e-5)


# The arrays of the attention page are those that bertviz draws: attention, queries and keys of every head, and the tokens.


FIRST, SECOND = "The cat sat on the mat because it was tired.", "Then the dog chased the cat."


@pytest.fixture(scope="module")
def drawn():
    """What the neuron view of bertviz draws of MiniLM, computed by bertviz' own BERT."""
    from bertviz import neuron_view
    from bertviz.transformers_neuron_view import BertConfig, BertModel, BertTokenizer

    weights = transformers.BertModel.from_pretrained(minilm.FOLDER).state_dict()
    model = BertModel(BertConfig.from_json_file(str(minilm.FOLDER / "config.json")))
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert missing == []
    tokenizer = BertTokenizer(str(minilm.FOLDER / "vocab.txt"), do_lower_case=True)
    with torch.no_grad():
        return neuron_view.get_attention(model, "bert", tokenizer, FIRST, SECOND, include_queries_and_keys=True)


def test_the_page_has_the_arrays_that_bertviz_draws(drawn):
    page = show_attention(from_pretrained(minilm.FOLDER), load_tokenizer(minilm.FOLDER), FIRST, SECOND).html
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    every = drawn["all"]
    assert data["tokens"] == every["left_text"]
    ours = {name: unpack(data["arrays"][name]) for name in ("probabilities", "queries", "keys")}
    np.testing.assert_allclose(ours["probabilities"], every["attn"], atol=1e-5)  # the page rounds to 1/131,070
    for name in ("queries", "keys"):
        np.testing.assert_allclose(ours[name], every[name], rtol=1e-3, atol=1e-4)  # the page has float16
    second = np.array(data["sentences"]) == 1
    first = ~second
    second[-1] = True  # bertviz counts the delimiters to the sentences
    first[-1] = False
    between = ours["probabilities"][:, :, first][..., second]
    np.testing.assert_allclose(between, drawn["ab"]["attn"], atol=1e-5)
