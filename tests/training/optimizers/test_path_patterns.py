"""`layer_rates`, `freeze` and `train_only` over the paths of real models."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import value
from helpers.small import small_model
from helpers.small_tasks import TOKENIZER, small_encoder, trained

from keras_bert_rebuild import AdamW, BertConfig, TextClassifier, build_model, freeze, train_only
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText
from keras_bert_rebuild.training.optimizers.path_patterns import first_match, layer_rates

pytestmark = pytest.mark.backend

SIZES = {"vocab_size": 30, "hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 4, "max_position_embeddings": 8}


def rate_of_layer(model, rates):
    """The multiplier by layer name; each layer has one."""
    found = {}
    for variable in model.trainable_variables:
        found.setdefault(variable.path.split("/")[0], set()).add(first_match(variable.path, rates, 1.0))
    assert all(len(values) == 1 for values in found.values())
    return {layer: values.pop() for layer, values in found.items()}


def test_the_first_block_and_the_twelfth_are_not_confused():
    model = build_model(BertConfig(num_hidden_layers=12, labels=("a", "b"), **SIZES), ["classification"])
    rates = rate_of_layer(model, layer_rates(model, 0.9))
    for block in range(1, 13):
        for layer in (f"Encoder-{block}-MultiHeadSelfAttention", f"Encoder-{block}-FeedForward-Norm"):
            assert rates.pop(layer) == pytest.approx(0.9 ** (12 - block))
    embeddings = {layer for layer in rates if layer.startswith("Embedding-")}
    assert embeddings == {"Embedding-Token", "Embedding-Segment", "Embedding-Position", "Embedding-Norm"}
    assert [rates[layer] for layer in embeddings] == pytest.approx([0.9**12] * 4)
    assert rates["NSP-Dense"] == rates["Classification"] == 1.0


def test_a_shared_block_has_one_multiplier():
    config = BertConfig(family="albert", num_hidden_layers=6, num_hidden_groups=1, embedding_size=2, **SIZES)
    model = build_model(config, ["mlm", "sop"])
    rates = rate_of_layer(model, layer_rates(config, 0.5))
    assert rates["Encoder-1-FeedForward"] == 1.0
    assert rates["Embedding-Mapping"] == rates["Embedding-Token"] == 0.5
    assert rates["MLM-Dense"] == rates["SOP"] == 1.0


def test_a_step_is_as_large_as_the_multiplier_of_its_layer():
    model = small_model()
    optimizer = AdamW(0.1, weight_decay=0.0, rate_multipliers=layer_rates(model, 0.5))
    expected = {
        "NSP/kernel": 0.1,
        "Encoder-2-FeedForward/output/kernel": 0.1,
        "Encoder-1-FeedForward/output/kernel": 0.05,
        "Embedding-Token/embeddings": 0.025,
    }
    variables = [v for v in model.trainable_variables if v.path in expected]
    optimizer.build(variables)
    before = [value(v).copy() for v in variables]
    optimizer.apply([np.ones(v.shape, "float32") for v in variables])
    for variable, start in zip(variables, before, strict=True):
        np.testing.assert_allclose(start - value(variable), expected.pop(variable.path), rtol=1e-4)
    assert expected == {}


@pytest.mark.parametrize(
    ("head", "layer"),
    [
        ("classification", "Classification"),
        ("token_classification", "Token-Classification"),
        ("question_answering", "Question-Answering"),
    ],
)
@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_only_a_new_head_has_the_factor_of_heads(head, layer, decay):
    model = build_model(BertConfig(num_hidden_layers=2, labels=("a", "b"), **SIZES), [head])
    rates = rate_of_layer(model, layer_rates(model, decay, head=7))
    assert rates.pop(layer) == 7.0
    assert {name: rate for name, rate in rates.items() if rate > decay} == (
        {} if decay == 1 else {name: 1.0 for name in rates if name.startswith("Encoder-2-") or name == "NSP-Dense"}
    )


def test_heads_of_pretraining_and_the_pooler_have_no_factor():
    model = build_model(BertConfig(num_hidden_layers=2, **SIZES), ["mlm", "nsp"])
    rates = layer_rates(model, head=7)
    assert {first_match(variable.path, rates, 1.0) for variable in model.trainable_variables} == {1.0}


def test_a_model_without_config_and_a_decay_out_of_range_are_errors():
    with pytest.raises(ValueError, match="expected a BertConfig or a model"):
        layer_rates(object(), 0.9)
    for decay in (0, 1.1):
        with pytest.raises(ValueError, match=r"decay must be in \(0, 1\]"):
            layer_rates(BertConfig(), decay)
    for head in (0, -1):
        with pytest.raises(ValueError, match="head must be above 0"):
            layer_rates(BertConfig(), head=head)


EXAMPLES = [ClassifiedText("the cat", label="a"), ClassifiedText("the dog", label="b")]


def task():
    return TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("a", "b"))


@pytest.mark.slow
def test_frozen_weights_stay_and_all_others_learn():
    here = task()
    counts = freeze(here.model, ["^Embedding-", "^Encoder-1-"])
    before = {v.path: np.array(v.numpy()) for v in here.model.weights}
    moves = {path for path in before if not path.startswith(("Embedding-", "Encoder-1-"))}
    assert counts.trained == sum(before[path].size for path in moves)
    assert counts.frozen == here.model.count_params() - counts.trained
    trained(here, EXAMPLES, epochs=2)
    moved = {v.path for v in here.model.weights if np.abs(v.numpy() - before[v.path]).max() > 1e-6}
    # The bias of the keys has no gradient: attention depends on differences only.
    assert moves - {"Encoder-2-MultiHeadSelfAttention/key/bias"} <= moved <= moves


def test_only_the_named_weights_learn():
    model = small_encoder()
    counts = train_only(model, ["bias$", "^NSP-Dense/"])
    assert {v.path for v in model.trainable_weights} == {
        v.path for v in model.weights if v.path.endswith("bias") or v.path.startswith("NSP-Dense/")
    }
    assert sum(counts) == model.count_params()


@pytest.mark.parametrize("change", [freeze, train_only])
def test_a_pattern_without_a_match_is_one_sentence(change):
    model = small_encoder()
    with pytest.raises(
        ValueError, match="must match a variable path, such as 'Embedding-Token/embeddings'; 'Encoder-9' matches none"
    ):
        change(model, ["Embedding", "Encoder-9"])
    with pytest.raises(ValueError, match="list of regular expressions"):
        change(model, "Embedding")
    with pytest.raises(ValueError, match="must have a built model, with weights; empty has none"):
        change(keras.Sequential([keras.layers.Dense(2)], name="empty"), ["kernel"])
    assert all(variable.trainable for variable in model.weights)
