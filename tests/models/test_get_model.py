"""The graph that `get_model` builds, and the arguments of older releases, taken or refused with their replacement."""

import csv
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.small import BLOCKS, LENGTH, VOCAB, answers, initialized_by, small_model

import keras_bert_rebuild
from keras_bert_rebuild import AdamWarmup, compile_model, get_model
from keras_bert_rebuild.layers import get_embedding, get_inputs
from keras_bert_rebuild.models.get_model import FIELDS, OLD

pytestmark = pytest.mark.backend

ARTICLE = {
    "token_num": 30000,
    "head_num": 12,
    "transformer_num": 12,
    "embed_dim": 768,
    "feed_forward_dim": 3072,
    "seq_len": 512,
    "pos_num": 512,
    "dropout_rate": 0.05,
}
TABLE = Path(__file__).parents[1] / "bert_base_summary.tsv"


@pytest.fixture(scope="module")
def article_model():
    with initialized_by(np.zeros):
        return get_model(**ARTICLE)


@pytest.fixture(scope="module")
def expected_rows():
    with TABLE.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def printed_rows(model):
    """The rows of `model.summary()`, parsed from its output."""
    lines = []
    model.summary(line_length=400, print_fn=lambda line, **_: lines.extend(line.split("\n")))
    rows = []
    for line in lines:
        if line.count("│") != 5:
            continue
        layer, shape, params, origin = (cell.strip() for cell in line.split("│")[1:5])
        if layer:
            name, kind = re.fullmatch(r"(\S+) \((\S+)\)", layer).groups()
            rows.append([name, kind, shape, params.replace(",", ""), origin.rstrip(",")])
        else:  # the continuation of a row
            for i, cell in ((2, shape), (4, origin)):
                rows[-1][i] += f" {cell}" if i == 2 and cell else f", {cell.rstrip(',')}" if cell else ""
    return rows


def test_the_printed_summary_has_the_112_rows_of_the_article(article_model, expected_rows, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # rich cuts text that does not fit the terminal
    got = printed_rows(article_model)
    assert len(got) == 112
    for row, expected in zip(got, expected_rows, strict=True):
        assert row == list(expected.values())


def test_the_model_has_exactly_109705010_parameters(article_model):
    assert article_model.count_params() == 109_705_010


def test_parameters_are_counted_without_building_a_model(article_model):
    assert keras_bert_rebuild.BertConfig(vocab_size=30000).num_params() == article_model.count_params()
    small = keras_bert_rebuild.BertConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_hidden_layers=BLOCKS,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        num_tasks=3,
    )
    assert small.num_params() == small_model(use_task_embed=True, task_num=3).count_params()
    features = keras.Model(*small_model(training=False, use_task_embed=True, task_num=3))
    assert small.num_params(heads=()) == features.count_params()


def test_the_graph_has_no_operations_outside_of_layers(article_model):
    assert [operation.name for operation in article_model.operations] == [layer.name for layer in article_model.layers]


def test_weights_have_the_order_and_shapes_of_keras_bert():
    d, f = 16, 32
    block = [(d, d), (d,)] * 4 + [(d,)] * 2 + [(d, f), (f,), (f, d), (d,)] + [(d,)] * 2
    expected = [(VOCAB, d), (2, d), (LENGTH, d), (d,), (d,)] + block * BLOCKS
    expected += [(d, d), (d,), (d,), (d,), (VOCAB,), (d, d), (d,), (d, 2), (2,)]
    assert [tuple(w.shape) for w in small_model().get_weights()] == expected


def test_variable_paths_are_the_documented_ones():
    paths = {v.path for v in small_model().weights}
    assert {
        "Embedding-Token/embeddings",
        "Embedding-Norm/gamma",
        "Encoder-2-MultiHeadSelfAttention/query/kernel",
        "Encoder-1-FeedForward/intermediate/bias",
        "MLM-Sim/bias",
        "NSP/kernel",
    } <= paths


@pytest.mark.parametrize(("rate", "count"), [(0.1, 8 + 8 * BLOCKS), (0.0, 7 + 6 * BLOCKS), (-1, 7 + 6 * BLOCKS)])
def test_layer_counts_are_those_of_keras_bert(rate, count):
    assert len(keras.Model(*small_model(training=False, dropout_rate=rate)).layers) == count
    assert len(small_model(dropout_rate=rate).layers) == count + 8
    assert len(small_model(dropout_rate=rate, use_task_embed=True).layers) == count + 10


def test_inputs_come_in_the_order_of_keras_bert():
    names = lambda model: [tensor.name for tensor in model.inputs]  # noqa: E731
    assert names(small_model()) == ["Input-Token", "Input-Segment", "Input-Masked"]
    assert names(small_model(use_task_embed=True)) == ["Input-Token", "Input-Segment", "Input-Task", "Input-Masked"]
    assert names(small_model(padding_mask=True)) == ["Input-Token", "Input-Segment", "Input-Masked", "Input-Mask"]
    inputs, _ = small_model(training=False, use_task_embed=True)
    assert [tensor.name for tensor in inputs] == ["Input-Token", "Input-Segment", "Input-Task"]
    assert small_model().output_names == ["MLM", "NSP"]


@pytest.mark.parametrize(
    ("output_layer_num", "blocks"),
    [
        (1, [2]),
        (2, [1, 2]),
        (9, [1, 2]),
        (True, [2]),
        (np.int64(2), [1, 2]),
        ([0], [1]),
        ([-1], [2]),
        ([0, -1], [2, 1]),
        ((1,), [2]),
    ],
)
def test_output_layers_are_concatenated_as_keras_bert_does(output_layer_num, blocks):
    keras.utils.set_random_seed(1)
    inputs, output = small_model(training=False, output_layer_num=output_layer_num)
    model = keras.Model(inputs, output)
    singles = [model.get_layer(f"Encoder-{block}-FeedForward-Norm").output for block in blocks]
    ids = np.array([[7, 8, 9] + [0] * (LENGTH - 3)])
    (got,) = answers(model, ids, ids * 0)
    np.testing.assert_array_equal(got, np.concatenate(answers(keras.Model(inputs, singles), ids, ids * 0), axis=-1))


@pytest.mark.parametrize("output_layer_num", [0, -1])
def test_no_output_layer_is_an_index_error(output_layer_num):
    with pytest.raises(IndexError, match="output_layer_num must be at least 1"):
        small_model(training=False, output_layer_num=output_layer_num)


@pytest.mark.parametrize("output_layer_num", [[2], [-3], []])
def test_an_output_layer_that_does_not_exist_is_an_error(output_layer_num):
    with pytest.raises(ValueError, match="blocks from -2 to 1"):
        small_model(training=False, output_layer_num=output_layer_num)


def test_an_early_output_layer_prunes_the_graph():
    assert (
        keras.Model(*small_model(training=False, output_layer_num=[0], dropout_rate=0.1)).layers[-1].name
        == "Encoder-1-FeedForward-Norm"
    )


def test_feature_models_are_frozen_and_training_models_are_not():
    assert keras.Model(*small_model(training=False)).trainable_weights == []
    assert len(small_model().trainable_weights) == len(small_model().weights)


def test_trainable_prefixes_name_the_layers_to_train():
    model = keras.Model(*small_model(training=False, trainable=["Encoder-2", "Embedding-Norm"]))
    trained = {v.path.split("/")[0] for v in model.trainable_weights}
    assert trained == {
        "Embedding-Norm",
        "Encoder-2-MultiHeadSelfAttention",
        "Encoder-2-MultiHeadSelfAttention-Norm",
        "Encoder-2-FeedForward",
        "Encoder-2-FeedForward-Norm",
    }
    assert small_model(trainable=[]).trainable_weights == []
    assert len(keras.Model(*small_model(training=False, trainable=True)).trainable_weights) == 5 + 16 * BLOCKS


def test_a_string_as_trainable_is_an_error_and_not_a_list_of_letters():
    with pytest.raises(ValueError, match="the string 'Encoder'"):
        small_model(trainable="Encoder")


def test_any_length_works_without_a_static_one(rng):
    model = small_model(seq_len=None)
    static = small_model()
    static.set_weights(model.get_weights())
    ids = rng.integers(5, VOCAB, (2, LENGTH))
    expected = static.predict([ids, ids * 0, ids * 0], verbose=0)
    for got, want in zip(model.predict([ids, ids * 0, ids * 0], verbose=0), expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    assert model.predict([ids[:, :5], ids[:, :5] * 0, ids[:, :5] * 0], verbose=0)[0].shape == (2, 5, VOCAB)


def test_a_length_beyond_the_positions_is_an_error():
    with pytest.raises(ValueError, match="seq_len must be at most 12, the rows of the position table; got 13"):
        small_model(seq_len=LENGTH + 1)


def test_an_unknown_activation_is_an_error():
    with pytest.raises(ValueError, match="gelu_new"):
        small_model(feed_forward_activation="gelu_new")


def test_the_word_gelu_is_the_tanh_form_and_other_names_are_keras_own():
    assert small_model().get_layer("Encoder-1-FeedForward").activation is keras_bert_rebuild.gelu
    assert small_model().get_layer("MLM-Dense").activation is keras_bert_rebuild.gelu
    assert small_model(feed_forward_activation="relu").get_layer("MLM-Dense").activation is keras.activations.relu
    attention = small_model(attention_activation="gelu").get_layer("Encoder-1-MultiHeadSelfAttention")
    assert attention.query_dense.activation is keras_bert_rebuild.gelu
    assert attention.output_dense.activation is keras_bert_rebuild.gelu


def test_the_token_embedding_is_a_symbolic_tensor_of_the_table():
    assert keras_bert_rebuild.get_token_embedding(small_model()).shape == (VOCAB, 16)
    with pytest.raises(ValueError, match="Embedding-Token"):
        keras_bert_rebuild.get_token_embedding(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))


def test_a_model_without_blocks_needs_heads():
    assert small_model(transformer_num=0).count_params() > 0
    with pytest.raises(IndexError, match="at least 1 encoder block"):
        small_model(transformer_num=0, training=False)


@pytest.mark.slow
def test_a_classifier_is_built_on_the_pooled_output_as_keras_berts_notebooks_do(rng):
    model = small_model(trainable=True)
    output = keras.layers.Dense(2, activation="softmax")(model.get_layer("NSP-Dense").output)
    classifier = keras.Model(model.inputs[:2], output)
    classifier.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    ids = rng.integers(5, VOCAB, (16, LENGTH))
    labels = (ids[:, 1] > 30).astype(int)
    losses = classifier.fit((ids, ids * 0), labels, batch_size=16, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2


# Argument, and what the message names.
REPLACED = {
    "custom_layers": "call the layers that replaced the encoder",
    "dropout": "it is called dropout_rate",
    "lr": "pass it to compile_model(model, ...) as learning_rate",
    "learning_rate": "compile_model(model, ...)",
    "weight_decay": "compile_model(model, ...)",
    "weight_decay_pattern": "compile_model(model, ...)",
    "decay_steps": "compile_model(model, ...)",
    "warmup_steps": "compile_model(model, ...)",
    "hidden_size": "which is called embed_dim",
    "num_hidden_layers": "which is called transformer_num",
    "vocab_size": "which is called token_num",
    "dropuot_rate": "did you mean dropout_rate?",
}


@pytest.mark.parametrize("name", REPLACED)
def test_an_argument_of_an_older_release_is_named_with_its_replacement(name):
    with pytest.raises(ValueError, match=rf"get_model .*\b{name}\b") as caught:
        small_model(**{name: 1e-4})
    assert REPLACED[name] in str(caught.value)
    assert "BertConfig" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_named_argument_is_refused():
    for name in {*FIELDS, *OLD}:
        with pytest.raises(ValueError, match=name):
            small_model(**{name: 0})


def test_an_argument_that_resembles_nothing_is_refused_without_a_guess():
    with pytest.raises(ValueError, match=r"get_model has no argument zzz\.$"):
        small_model(zzz=1)


def test_fields_of_the_config_are_still_taken():
    assert small_model(type_vocab_size=3, layer_norm_eps=1e-5).config.type_vocab_size == 3


def test_the_call_in_the_message_on_custom_layers_builds_the_old_model():
    inputs = get_inputs(8)[:2]
    x, _ = get_embedding(inputs, token_num=20, pos_num=8, embed_dim=6)
    model = keras.Model(inputs, keras.layers.LSTM(6, return_sequences=True, name="LSTM")(x))
    assert [layer.name for layer in model.layers][-2:] == ["Embedding-Position", "LSTM"]


def test_compile_model_and_adam_warmup_take_lr():
    model = compile_model(small_model(), lr=0.25)
    assert float(model.optimizer.learning_rate) == 0.25
    assert float(AdamWarmup(10, 2, lr=0.5).learning_rate) == 0.5
