"""The tables fit the terminal and show the accounting and the summary; every family has the formulas of its paper."""

import csv
import io
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.small import initialized_by, small_model
from rich.cells import cell_len
from rich.console import Console

from keras_bert_rebuild import BertConfig, explain, get_model, print_summary
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.explain.explain_table import percent, short
from keras_bert_rebuild.explain.summary import summary_rows
from keras_bert_rebuild.explain.weight_names import WeightNames, weight_names

TABLE = Path(__file__).parents[1] / "bert_base_summary.tsv"


def test_rows_equal_the_table_of_the_article():
    with initialized_by(np.zeros):
        model = get_model(30000, dropout_rate=0.05)
    with TABLE.open() as file:
        expected = list(csv.DictReader(file, delimiter="\t"))
    for row, want in zip(summary_rows(model), expected, strict=True):
        assert [row.name, row.type, row.output_shape, str(row.params), ", ".join(row.connected_to) or "-"] == list(want.values())


def test_the_printed_table_has_every_layer_name_in_full():
    lines = []
    model = small_model(dropout_rate=0.1)
    print_summary(model, print_fn=lines.append)
    text = "\n".join(lines)
    for layer in model.layers:
        assert f"{layer.name} ({type(layer).__name__})" in text
    assert "Encoder-1-MultiHeadSelfAttention-Dropout[0][0]" in text
    assert f"Total params: {model.count_params():,}" in lines


def test_a_model_without_a_graph_is_an_error():
    class Subclassed(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(ValueError, match="needs a functional model"):
        print_summary(Subclassed())


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", ["bert-large-uncased", "albert-xxlarge-v2"])
def test_lines_fit_and_no_number_is_cut(name, width):
    config, heads = released()[name]
    explanation = explain(config, heads, batch=256, dtype="mixed_bfloat16")
    text = explanation.to_text(width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    text = " ".join(text.split())
    for step in explanation.steps:
        assert f"{step.params:,}" in text
        assert step.formula in text
        assert step.numbers in text
    assert f"{explanation.total('params'):,}" in text


def test_the_table_corrects_the_article():
    text = " ".join(explain(BertConfig(vocab_size=30000)).to_text().split())
    assert "9 · 12 = 108. A block has 8, and 8 · 12 = 96." in text
    assert "positions are not trained. The table is a weight like any other, 512 · 768 values." in text
    assert "0 and 1 are the ids; the 2 vectors of 768 values are learned." in text
    assert "Here the activation is gelu." in text
    without_dropout = explain(BertConfig(num_hidden_layers=6, hidden_dropout_prob=0.0, type_vocab_size=0, hidden_act="relu"))
    text = " ".join(without_dropout.corrections)
    assert "A block has 6, and 6 · 6 = 36." in text
    assert "segment" not in text
    assert "ReLU" not in text


def test_shared_blocks_show_how_often_they_run():
    text = explain(*released()["albert-base-v2"]).to_text(80)
    assert "Encoder block × 1, run 12 times" in text
    assert "in each of" not in text
    assert "= 2,362,368 in each of 6 blocks" in explain(*released()["distilbert-base-uncased"]).to_text(80)


def test_markdown_has_a_row_for_every_step_and_printing_gives_the_table():
    explanation = explain(BertConfig(vocab_size=30000))
    markdown = explanation.to_markdown()
    for step in explanation.steps:
        assert f"| {step.name} | {step.formula} |" in markdown
    assert {line.count("|") for line in markdown.splitlines() if line.startswith("|")} <= {4, 7, 8}
    assert explanation._repr_markdown_() == markdown
    assert str(explanation) == explanation.to_text()


@pytest.mark.parametrize("width", [80, 200])
def test_names_are_never_cut(width):
    rows = weight_names(BertConfig(), ["pooler"])
    console = Console(file=io.StringIO(), width=width)
    console.print(WeightNames(rows).to_tables(width))
    lines = console.file.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    for row in rows[:20]:
        assert any(row.name in line for line in lines)
        assert any(row.path in line for line in lines)


def test_short_numbers_and_shares():
    assert [short(n, "B") for n in (0, 999, 1000, 438_820_040, 3.6e15)] == ["0 B", "999 B", "1.0 kB", "438.8 MB", "3.6 PB"]
    assert [percent(x) for x in (0, 0.258, 0.0005, 0.000014, 1e-7)] == ["0.0 %", "25.8 %", "0.1 %", "0.0014 %", "< 0.001 %"]


SAID = {
    "electra-small-discriminator": (
        "a dense layer projects their sum, 128 · 256 weights",
        "`embeddings_project`",
        "D(x, t) = sigmoid(",
    ),
    "albert-base-v2": ("T · 128 + 128 · 768 weights replace T · 768 (Lan et al., 2020",),
    "modernbert-base": (
        "rotary, theta 160,000 (global), 10,000 (windows of 128)",
        "K = 64, are rotated by the angle p · theta^(-2i / K)",
        "attention is to windows of 128 in 14 of 22 blocks, every token in 8",
        "x = x + f(norm(x))",
        "(act(x · W_gate) ⊙ (x · W)) · W_output with gelu_erf-gated (GeGLU), 1,152 wide",
    ),
    "deberta-v3-base": ("(Q_i · K_j + Q_i · K^r_δ(i,j) + K_j · Q^r_δ(i,j)) / √(3 · K)",),
    "deberta-v2-xlarge": ("a convolution of its input over 3 tokens",),
    "transformer-base": ("sin(pos / 10000^(2i / 512))", "multiplied by 22.63"),
}


@pytest.mark.parametrize("name", SAID)
def test_the_formulas_of_its_paper(name):
    config, heads = released()[name]
    heads = ["rtd"] if name.startswith("electra") else heads
    said = " ".join(explain(config, heads).corrections)
    for words in SAID[name]:
        assert words in said


def test_bert_has_none_of_them():
    said = " ".join(explain(BertConfig()).corrections)
    for word in ("rotated", "windows", "gate", "δ(i,j)", "projects", "sigmoid", "x + f(norm(x))", "convolution"):
        assert word not in said


@pytest.mark.parametrize("name", released())
def test_every_released_model_has_whole_sentences(name):
    for sentence in explain(*released()[name]).corrections:
        assert sentence.endswith(".")
        assert not {"{", "}", "None"} & set(sentence.split())
