"""The weights of a model under the names of other libraries, from its config alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.reference import weights_of
from helpers.small import small_batch, small_model, spread

from keras_bert_rebuild import BertConfig, attention_maps
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.explain.weight_names import WeightNames, weight_names
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"

# What "Understanding BERT from huggingface" prints for BertModel, without the layers between the first and the last.
PRINTED = """
embeddings.word_embeddings.weight (30522, 768)
embeddings.position_embeddings.weight (512, 768)
embeddings.token_type_embeddings.weight (2, 768)
embeddings.LayerNorm.weight (768,)
embeddings.LayerNorm.bias (768,)
pooler.dense.weight (768, 768)
pooler.dense.bias (768,)
"""
PRINTED_LAYER = """
attention.self.query.weight (768, 768)
attention.self.query.bias (768,)
attention.self.key.weight (768, 768)
attention.self.key.bias (768,)
attention.self.value.weight (768, 768)
attention.self.value.bias (768,)
attention.output.dense.weight (768, 768)
attention.output.dense.bias (768,)
attention.output.LayerNorm.weight (768,)
attention.output.LayerNorm.bias (768,)
intermediate.dense.weight (3072, 768)
intermediate.dense.bias (3072,)
output.dense.weight (768, 3072)
output.dense.bias (768,)
output.LayerNorm.weight (768,)
output.LayerNorm.bias (768,)
"""


def test_bert_model_has_the_199_parameters_that_huggingface_prints():
    rows = weight_names(BertConfig(), ["pooler"])
    expected = PRINTED.split("\n")[1:-1]
    expected += [f"encoder.layer.{i}.{line}" for i in range(12) for line in PRINTED_LAYER.split("\n")[1:-1]]
    assert len(rows) == len(expected) == 199
    assert {f"{row.name} {row.their_shape}" for row in rows} == set(expected)
    assert sum(row.parameters for row in rows) == 109_482_240
    assert sum(row.name.endswith("query.weight") for row in rows) == 12  # one per layer, not twelve
    assert WeightNames(rows).summary() == (
        "199 weights, 109,482,240 parameters. A layer has one query, one key and one value kernel for all 12 heads: "
        "rows 0–63 head 0, … 704–767 head 11."
    )


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_the_rows_of_a_head_compute_its_queries_keys_and_values(format, rng):
    model = spread(small_model(), rng)
    (ids, segments, _), _ = small_batch(rng, 2)
    maps = attention_maps(model, [ids, segments], vectors=True)
    rows = {row.path: row for row in weight_names(model.config, ("mlm", "nsp"), format)}
    weights = weights_of(model)
    for projection, found in (("query", maps.queries), ("key", maps.keys), ("value", maps.values)):
        kernel, bias = (rows[f"Encoder-2-MultiHeadSelfAttention/{projection}/{kind}"] for kind in ("kernel", "bias"))
        theirs = weights[kernel.path].T if format == "huggingface" else weights[kernel.path]
        part = theirs[kernel.of_head(1)]
        part = part.T if format == "huggingface" else part
        expected = maps.inputs[1] @ part + weights[bias.path][bias.of_head(1)]
        np.testing.assert_allclose(found[1, :, 1], expected, atol=1e-5)
    output = rows["Encoder-1-MultiHeadSelfAttention/output/kernel"]
    assert output.heads == ("columns" if format == "huggingface" else "rows") + " 0–7 head 0, … 8–15 head 1"
    assert rows["MLM-Dense/kernel"].heads == ""
    for head in (-1, 2):
        with pytest.raises(ValueError, match=f"head must be from 0 to 1, as the layer has 2; got {head}"):
            output.of_head(head)


@pytest.mark.parametrize(
    "case", ["bert_pretraining", "roberta_masked_lm", "distilbert_classification", "albert_groups", "electra_discriminator"]
)
def test_names_and_shapes_are_those_in_the_files_of_transformers(case):
    found = inspect_checkpoint(GOLDEN / case)
    config, heads = BertConfig.from_dict(found["config"]), found["heads"]
    rows = weight_names(config, heads)
    files = {row.name: row.shape for row in found["names"] if row.path not in ("-", "?")}
    ours = {row.name: row.their_shape for row in rows}
    assert set(files) <= set(ours)
    assert {name: ours[name] for name in files} == files
    assert {row.name for row in rows if row.parameters} <= set(files)


def test_every_released_model_has_all_its_names():
    for name, (config, heads) in released().items():
        if config.family in FAMILIES:
            assert sum(row.parameters for row in weight_names(config, heads)) == config.num_params(heads), name


def test_second_names_of_tied_weights_are_not_counted():
    rows = weight_names(BertConfig())
    assert [row.name for row in rows if not row.parameters] == ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]
    assert WeightNames(rows).summary().endswith(" 2 more names, at the end, are aliases of tied weights.")
    assert sum(row.parameters for row in rows) == BertConfig().num_params()


def test_markdown_and_json_have_a_row_for_every_name():
    rows = weight_names(BertConfig(num_hidden_layers=1), ["pooler"])
    assert WeightNames(rows).to_markdown().count("\n| ") == len(rows) + 1
    values = json.loads(WeightNames(rows).json_text())
    assert [value["name"] for value in values] == [row.name for row in rows]
    assert values[5]["their_shape"] == [768, 768]


@pytest.mark.parametrize(
    ("config", "heads", "format", "message"),
    [
        (BertConfig(family="albert"), (), "google", "Google's names are those of BERT; the family is albert"),
        (
            BertConfig(labels=("a",)),
            ("token_classification",),
            "google",
            "none for Token-Classification/bias, Token-Classification/kernel",
        ),
        (BertConfig(family="gpt"), (), "huggingface", "family must be one of bert"),
        (BertConfig(), (), "jax", "huggingface or google; got 'jax'"),
    ],
)
def test_names_that_do_not_exist_are_one_sentence(config, heads, format, message):
    with pytest.raises(ValueError, match=message):
        weight_names(config, heads, format)
