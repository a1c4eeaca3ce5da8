"""The printed summary."""

import csv
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.small import initialized_by, small_model

from keras_bert_rebuild import get_model, print_summary
from keras_bert_rebuild.explain.summary import summary_rows

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
