"""The table shards the intended weights, and none that the number of devices does not divide."""

import re

import pytest

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.training.distributed.layout_table import LAYOUT, axes_of


@pytest.fixture(scope="module")
def paths():
    sizes = {"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 11, "num_attention_heads": 2, "intermediate_size": 16}
    model = build_model(BertConfig(**sizes, max_position_embeddings=8), ["mlm", "nsp"])
    return {weight.path: tuple(weight.shape) for weight in model.weights}


def test_every_row_matches_in_a_model_and_no_weight_matches_two(paths):
    found = {path: [pattern for pattern, _ in LAYOUT if re.fullmatch(pattern, path)] for path in paths}
    assert all(len(patterns) <= 1 for patterns in found.values())
    assert {pattern for patterns in found.values() for pattern in patterns} == {pattern for pattern, _ in LAYOUT}


def test_all_weights_of_a_block_are_sharded_except_those_added_after_a_sum(paths):
    whole = {path.partition("-11-")[2] for path, shape in paths.items() if "-11-" in path and not any(axes_of(path, shape, 2))}
    norms = {f"{layer}-Norm/{name}" for layer in ("MultiHeadSelfAttention", "FeedForward") for name in ("gamma", "beta")}
    assert whole == {"MultiHeadSelfAttention/output/bias", "FeedForward/output/bias", *norms}


@pytest.mark.parametrize(
    ("path", "shape", "devices", "axes"),
    [
        ("Embedding-Token/embeddings", (30528, 768), 4, ("model", None)),
        ("Embedding-Token/embeddings", (30522, 768), 4, (None, "model")),
        ("Embedding-Token/embeddings", (30522, 766), 4, (None, None)),
        ("MLM-Sim/bias", (30522,), 4, (None,)),
        ("Encoder-12-FeedForward/output/kernel", (3072, 768), 8, ("model", None)),
        ("Embedding-Position/embeddings", (512, 768), 4, (None, None)),
        ("Encoder-1-FeedForward-Norm/gamma", (768,), 4, (None,)),
    ],
)
def test_a_weight_is_sharded_along_the_first_axes_that_divide_it(path, shape, devices, axes):
    assert axes_of(path, shape, devices) == axes
