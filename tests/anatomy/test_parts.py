"""What is derived from the parts of an encoder, against expected results written by hand and against built models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.anatomy.heads import HEADS
from keras_bert_rebuild.anatomy.part import ATTENTION, LETTERS, Weight, formula_of, letters_of, value
from keras_bert_rebuild.anatomy.parts import adapted_patterns, every_part, num_params, parts_of, weights_of
from keras_bert_rebuild.families.modernbert import ModernBertConfig
from keras_bert_rebuild.kernels.bands import WINDOWS, is_in_bands

pytestmark = pytest.mark.backend

ROWS = [part for part in every_part() if part.weights]


@pytest.mark.parametrize("part", ROWS, ids=lambda part: part.layer)
@given(data=st.data())
def test_the_displayed_formula_equals_the_number_from_the_shapes(part, data):
    letters = {letter: data.draw(st.integers(1, 50)) for letter, _ in LETTERS}
    letters["D"] = letters["H"] = letters["A"] * data.draw(st.integers(1, 20))
    assert value(part.params, letters) == part.count(letters)


def test_equal_shapes_are_counted_and_modules_are_bracketed():
    dense = [Weight("one/kernel", ("H", "U")), Weight("one/bias", ("U",)), Weight("two/kernel", ("U", "H"))]
    assert formula_of(dense) == "(H·U + U) + (U·H)"
    assert formula_of([Weight("gamma", ("H",)), Weight("beta", ("H",))]) == "2·H"


def test_blocks_that_differ_are_counted_separately():
    config = BertConfig(num_hidden_layers=4, num_hidden_groups=2)
    placed = {part.layer: (blocks, runs) for part, blocks, runs in parts_of(config.encoder(), ())}
    assert placed["Encoder-{n}-FeedForward"] == (2, 4)
    assert placed["Embedding-Token"] == (1, 1)


@pytest.mark.parametrize("window", [1, 3, 64])
def test_attention_within_a_window_counts_what_is_computed(window):
    config = ModernBertConfig(num_hidden_layers=3, global_attn_every_n_layers=3, local_attention=2 * window)
    attention = {part.name: (part, runs) for part, _, runs in parts_of(config.encoder(), ()) if part.layer.endswith(ATTENTION)}
    assert [runs for _, runs in attention.values()] == [2, 1]
    part = attention["Windowed attention"][0]
    for length in (WINDOWS * window, WINDOWS * window + 1):
        letters = letters_of(config.encoder(), length=length)
        in_bands = is_in_bands(length, window)
        keys = 3 * window if in_bands else length
        assert value(part.operations, letters) == 8 * length * 768**2 + 4 * length * keys * 768
        assert value(part.kept, letters) == (3 + 2 * (3 if in_bands else 1)) * length * 768 + 12 * length * keys
        assert in_bands == (length > WINDOWS * window)


@pytest.mark.parametrize("head", HEADS)
def test_the_weights_are_those_of_the_model(head):
    sizes = {"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(**sizes, embedding_size=4, num_tasks=3, labels=("a", "b", "c"), crf=head == "token_classification")
    model = build_model(config, (head,))
    expected = {path: shape for path, (_, shape) in weights_of(config.encoder(), (head,)).items()}
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == expected
    assert num_params(config.encoder(), (head,)) == model.count_params() == sum(np.prod(shape) for shape in expected.values())


def test_adapters_are_added_to_queries_and_values():
    assert adapted_patterns() == ("MultiHeadSelfAttention/(query|value)/kernel$",)
