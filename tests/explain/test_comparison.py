"""Two models compared: the numbers are those of each, and the words name every difference."""

import json
from dataclasses import replace
from itertools import combinations

import keras
import pytest
from helpers.small import small_model
from helpers.toy_family import ToyConfig
from rich.cells import cell_len

from keras_bert_rebuild import BertConfig, explain
from keras_bert_rebuild.explain.anatomy_words import CHANGED, ONLY_FIRST, ONLY_SECOND, SAME, facts_of, name_of
from keras_bert_rebuild.explain.comparison import compare, compare_given
from keras_bert_rebuild.explain.comparison_formats import UNCHANGED
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.families.deberta_v2 import DebertaV2Config
from keras_bert_rebuild.families.modernbert import ModernBertConfig
from keras_bert_rebuild.families.transformer import TransformerConfig

BERT, MODERN = BertConfig(), ModernBertConfig()


def said(comparison):
    return {change.subject: (change.first, change.second) for change in comparison.changes}


def test_a_model_and_itself_have_no_difference():
    comparison = compare(BERT, BertConfig(), ["mlm", "nsp"])
    assert comparison.changes == ()
    assert {step.status for step in comparison.steps} == {SAME}
    assert [comparison.ratio(name) for name in ("params", "train", "memory")] == [1, 1, 1]
    assert UNCHANGED in str(comparison)
    assert UNCHANGED in comparison.to_markdown()


@pytest.mark.parametrize("names", [("bert-base-uncased", "modernbert-base"), ("deberta-v2-xlarge", "albert-base-v2")])
def test_totals_are_the_parameters_of_each_and_steps_add_up_to_them(names):
    given = [released()[name] for name in names]
    comparison = compare_given(given, names, batch=3, length=64, predictions=7)
    assert comparison.totals("params") == tuple(config.num_params(heads) for config, heads in given)
    for name in ("params", "bytes", "forward", "train", "kept", "memory"):
        assert tuple(map(sum, zip(*(step.amounts(name) for step in comparison.steps), strict=True))) == comparison.totals(name)
    for (config, heads), total in zip(given, comparison.totals("memory"), strict=True):
        alone = explain(config, heads, batch=3, length=64, predictions=7)
        assert total == 16 * config.num_params(heads) + alone.total("kept")


def test_from_bert_to_modernbert():
    comparison = compare(BERT, MODERN)
    words = said(comparison)
    assert words["positions"] == ("learned table of 512", "rotary, theta 160,000 (global), 10,000 (windows of 128)")
    assert words["norm"] == ("post-norm", "pre-norm, none before attention in 1 block")
    assert words["feed-forward"] == ("gelu, 3,072 wide", "gelu_erf-gated (GeGLU), 1,152 wide")
    assert words["biases"] == ("attention, feed-forward, norms", "none")
    assert words["attention to"] == ("every token", "windows of 128 in 14 of 22 blocks, every token in 8")
    assert words["maximum length"] == ("512 tokens", "8,192 tokens")
    assert (words["blocks"], words["segments"]) == (("12", "22"), ("2", "none"))
    assert "width" not in words
    status = {step.role: step.status for step in comparison.steps}
    assert status["Embedding-Segment"] == status["Embedding-Position"] == ONLY_FIRST
    assert status["Encoder-Norm"] == ONLY_SECOND
    assert status["MultiHeadSelfAttention"] == status["Input-Token"] == CHANGED
    assert comparison.first.letters["S"] == comparison.second.letters["S"] == 512


def test_other_families_in_their_words():
    words = said(compare(BERT, DebertaV2Config(conv_kernel_size=3)))
    assert words["positions"][1].startswith(
        "disentangled, distances up to 512 in 256 buckets on either side, normalised, terms c2p and"
    )
    assert words["convolution"] == ("none", "none in 11 of 12 blocks, 3 tokens, tanh in 1")
    words = said(compare(BERT, TransformerConfig()))
    assert words["positions"][1] == "sinusoidal"
    assert words["token embedding scale"] == ("1", "22.63")
    words = said(compare_given([released()["bert-base-uncased"], released()["albert-base-v2"]]))
    assert words["blocks"] == ("12", "12 that share the weights of 1")
    assert words["embedding width"] == ("768", "128, projected to 768 after the norm")


def test_equal_numbers_with_other_words_are_a_change_of_the_step_that_computes_it():
    comparison = compare(BERT, BERT.replace(hidden_act="relu"))
    assert [step.name for step in comparison.steps if step.status != SAME] == ["Feed-forward"]


def test_no_two_released_models_of_another_anatomy_have_the_same_words():
    encoders = []
    for config, _ in released().values():
        encoder = config.encoder()
        if encoder not in encoders:
            encoders.append(encoder)
    assert len({facts_of(encoder) for encoder in encoders}) == len(encoders) > 20


def test_every_field_of_the_anatomy_changes_the_words():
    """Fields that have no words of their own are said by their names."""
    encoder = MODERN.encoder()
    encoder = replace(encoder, embedding=replace(encoder.embedding, widened=True))
    block = encoder.blocks[0]

    def with_block(**changes):
        return replace(encoder, blocks=tuple(replace(block, **changes) for block in encoder.blocks))

    odd = {bool: lambda value: not value, int: lambda value: value + 2, float: lambda value: value + 0.25, str: lambda value: "odd"}
    changed = []
    for of, make in (
        (block.attention, lambda value: with_block(attention=value)),
        (block.feed_forward, lambda value: with_block(feed_forward=value)),
        (encoder.embedding, lambda value: replace(encoder, embedding=value)),
    ):
        for name, value in vars(of).items():
            if type(value) in odd:
                changed.append((name, make(replace(of, **{name: odd[type(value)](value)}))))
    for name in ("order", "dropout", "adapter"):
        changed.append((name, with_block(**{name: odd[type(getattr(block, name))](getattr(block, name))})))
    assert len(changed) > 15
    heads = ("mlm",)
    for name, other in changed:
        assert facts_of(other, heads) != facts_of(encoder, heads), name


def test_values_in_words():
    assert [name_of(value) for value in (None, True, 8192, 160000.0, 1e-05, 0.1, ("a", "b"), keras.activations.relu)] == [
        "none", "yes", "8,192", "160,000", "1e-5", "0.1", "a and b", "relu",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize(
    ("first", "second"), list(combinations(["bert-large-uncased", "modernbert-large", "deberta-v2-xxlarge"], 2))
)
def test_lines_fit_and_no_number_is_cut(first, second, width):
    comparison = compare_given([released()[name] for name in (first, second)], (first, second), batch=256)
    text = comparison.to_text(width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for step in comparison.steps:
        for count in step.amounts("params"):
            assert not count or f" {count:,}" in text


def test_the_table_of_two_small_models():
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    first = BertConfig(**sizes, max_position_embeddings=16)
    second = ToyConfig(family="gated_toy", **sizes, max_position_embeddings=16)
    text = compare(first, second, names=("small", "gated_toy")).to_text(80)
    assert text.splitlines() == TABLE.strip("\n").splitlines()


TABLE = """
A  small · bert without heads: 852 parameters
B  gated_toy without heads: 728 parameters

1 text of 16 tokens, float32
                      A            B   B : A
────────────────────────────────────────────
parameters          852          728    0.85
operations   67.6 kFLOP   76.8 kFLOP    1.14
memory          21.8 kB      21.4 kB    0.98

operations: FLOPs of matrix products in a training step. memory: weights,
gradients, the two moments of Adam, and activations saved for the backward pass,
without fused attention or rematerialisation.

what changed   A                                 B
────────────────────────────────────────────────────────────────────────────────
segments       2                                 none
positions      learned table of 16               rotary, theta 100
norm           post-norm                         pre-norm, none before attention
                                                 in 1 block
feed-forward   gelu, 12 wide                     gelu-gated (GeGLU), 12 wide
biases         attention, feed-forward, norms    none
dropout        0.1 of the embedding, 0.1 of      0.1 of the embedding, 0.1 of
               attention probabilities, 0.1 of   attention outputs, 0.1 of
               attention outputs, 0.1 of         feed-forward outputs
               feed-forward outputs
final norm     none                              layer norm, epsilon 1e-12

        parameters                 A     B   B : A
──────────────────────────────────────────────────
~   1   Inputs
=   2   Token embedding          160   160    1.00
-   3   Segment embedding         16
-   4   Position embedding       128
~   5   Normalisation             16     8    0.50
~   6   Attention                288   256    0.89
-   7   Normalisation             16
~   8   Feed-forward             212   288    1.36
~   9   Normalisation             16     8    0.50
+       Final normalisation              8

        all                      852   728    0.85

        operations                        A            B   B : A
────────────────────────────────────────────────────────────────
~   6   Attention                49.2 kFLOP   49.2 kFLOP    1.00
~   8   Feed-forward             18.4 kFLOP   27.6 kFLOP    1.50

        all                      67.6 kFLOP   76.8 kFLOP    1.14

        memory                         A         B   B : A
──────────────────────────────────────────────────────────
=   2   Token embedding           2.6 kB    2.6 kB    1.00
-   3   Segment embedding          256 B
-   4   Position embedding        2.0 kB
~   5   Normalisation              768 B     640 B    0.83
~   6   Attention                 9.2 kB    8.7 kB    0.94
-   7   Normalisation              768 B
~   8   Feed-forward              5.4 kB    8.2 kB    1.51
~   9   Normalisation              768 B     640 B    0.83
+       Final normalisation                  640 B

        all                      21.8 kB   21.4 kB    0.98

= same, ~ changed, - only in A, + only in B. B : A is the number of B divided by
that of A.
"""


def test_json_and_markdown_hold_every_step_and_a_live_model_is_compared():
    model = small_model()
    comparison = compare(model, model.config, names=("live", "config"))
    values = json.loads(comparison.json_text())
    assert values["A"]["name"] == "live"
    assert values["totals"]["params"] == [model.count_params(), model.config.num_params([])]
    assert [step["name"] for step in values["steps"]] == [step.name for step in comparison.steps]
    markdown = comparison._repr_markdown_()
    assert all(f"| {step.name} |" in markdown for step in comparison.steps)
    assert "MLM vocabulary" in {step.name for step in comparison.steps if step.status == ONLY_FIRST}


def test_what_does_not_fit_is_one_sentence():
    for arguments, options, message in (
        ((BERT, MODERN), {"length": 513}, "length must be at most 512, the maximum of bert; got 513"),
        ((BERT, MODERN), {"batch": 0}, "batch must be at least 1; got 0"),
        ((BERT, "modernbert"), {}, "expected a BertConfig or a model; got str"),
        ((BERT, MODERN, ["cls"]), {}, "heads must be a list of some of pooler"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(*arguments, **options)
