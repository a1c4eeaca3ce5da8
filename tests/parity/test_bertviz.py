"""The arrays of the attention page are those that bertviz draws: attention, queries and keys of every head, and the tokens."""

import json
import re

import numpy as np
import pytest
import torch
import transformers
from helpers import minilm

from keras_bert_rebuild import from_pretrained, load_tokenizer, show_attention
from keras_bert_rebuild.explain.page_arrays import unpack

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
